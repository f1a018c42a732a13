"""Values of the daemon itself, by name: the counter of boots, and whatever else is one value."""

from typing import Any, Final

from crabtalk.store.engine import Reader, Write, delete, keys, put
from crabtalk.store.keys import key, parts_of, prefix
from crabtalk.store.records import decode_json, encode_json, refuse

COLUMN: Final = "config"


class Values:
    """Reads values, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def names(self) -> list[str]:
        """Return the name of every value, ascending."""
        return [parts_of(at)[-1] for at in keys(self._engine, COLUMN, prefix("value"))]

    def get(self, name: str) -> Any:  # noqa: ANN401 - it is JSON
        """Return a value, None if there is none.

        Raises:
            StoreError: if it is damaged; every reading method may.
        """
        at = key("value", name)
        raw = self._engine.get(COLUMN, at)
        return None if raw is None else decode_json(COLUMN, at, raw)

    def number(self, name: str) -> int:
        """Return a value that counts something, 0 if there is none."""
        value = self.get(name)
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool):
            refuse(COLUMN, key("value", name), "expected a number")
        return value

    def save(self, name: str, value: Any) -> list[Write]:  # noqa: ANN401
        """Return what stores a value, anything that JSON has."""
        return [put(COLUMN, key("value", name), encode_json(value))]

    def remove(self, name: str) -> list[Write]:
        """Return what removes a value."""
        return [delete(COLUMN, key("value", name))]

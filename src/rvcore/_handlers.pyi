from typing import Final

FAST: Final[bool]
NAMES: Final[tuple[str, ...]]

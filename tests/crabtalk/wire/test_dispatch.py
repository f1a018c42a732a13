"""A table serves every request, each in one way."""

import pytest

from crabtalk.dispatch import Table
from wire_tables import table


def test_a_table_that_is_not_complete_is_an_error():
    whole = table()
    with pytest.raises(ValueError, match="missing: ping"):
        Table(
            {name: one for name, one in whole.handlers.items() if name != "ping"},
            whole.streams,
            whole.not_built,
        )
    with pytest.raises(ValueError, match="unknown: pinng"):
        Table({**whole.handlers, "pinng": whole.handlers["ping"]}, whole.streams, whole.not_built)
    with pytest.raises(ValueError, match="twice: ping"):
        Table(whole.handlers, whole.streams, whole.not_built | {"ping"})

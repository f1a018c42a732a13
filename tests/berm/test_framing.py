"""`@capability`: the typed signature decides how requests are cut and replies are framed."""

import json

import anyio
import anyio.lowlevel
import pytest

import berm
from berm.framing import capability, framed
from berm.wire import WireError, pack_fields, unpack_fields


def test_parameters_are_fields_in_order():
    def take(call, text: str, data: bytes, number: int) -> str:
        return f"{call} {text} {data!r} {number}"

    assert framed(take)("C", pack_fields([b"t\xc3\xa9", b"\xff", b"-12"])) == "C té b'\\xff' -12".encode()


def test_last_list_of_pairs_takes_the_rest():
    def take(_call, first: str, rest: list[tuple[str, str]]) -> str:
        return f"{first} {rest}"

    run = framed(take)
    assert run(None, pack_fields([b"a"])) == b"a []"
    assert run(None, pack_fields([b"a", b"k", b"v"])) == b"a [('k', 'v')]"
    with pytest.raises(WireError, match="rest: 1 fields are no pairs"):
        run(None, pack_fields([b"a", b"k"]))
    with pytest.raises(WireError, match=r"expected 1 fields \(first\) and pairs of rest, got 0 fields"):
        run(None, b"")


def test_no_parameters():
    def now(_call) -> int:
        return 7

    assert framed(now)(None, b"") == b"7"
    with pytest.raises(WireError, match="expected 0 fields"):
        framed(now)(None, pack_fields([b""]))


@pytest.mark.parametrize("fields", [[], [b"a"], [b"a", b"b", b"c"]])
def test_wrong_number_of_fields_is_an_error_that_names_them(fields):
    def take(_call, one: str, two: str) -> None:  # noqa: ARG001 - names are what is tested
        raise AssertionError

    with pytest.raises(WireError) as caught:
        framed(take)(None, pack_fields(fields))
    assert str(caught.value) == f"expected 2 fields (one, two), got {len(fields)} fields"


def test_field_of_the_wrong_kind_names_its_parameter():
    def take(_call, limit: int) -> None:  # noqa: ARG001 - as above
        raise AssertionError

    with pytest.raises(WireError, match="limit: expected a decimal integer, got b'x'"):
        framed(take)(None, pack_fields([b"x"]))


def returning(hint, value):
    def function(_call):
        return value

    function.__annotations__["return"] = hint
    return framed(function)(None, b"")


@pytest.mark.parametrize(
    ("hint", "value", "reply"),
    [
        (None, None, b""),
        (str, "é", b"\xc3\xa9"),
        (str, "", b""),
        (bytes, b"\xff", b"\xff"),
        (int, -5, b"-5"),
        (int, True, b"1"),
        (list[str], ["a", "é"], '["a","é"]'.encode()),
        (dict[str, int], {"a": 1}, b'{"a":1}'),
        (list, [], b"[]"),
        (tuple[int, str, bytes], (200, "h", b"\0"), pack_fields([b"200", b"h", b"\0"])),
        (tuple[str], ("x",), pack_fields([b"x"])),
        (str | None, None, b""),
        (str | None, "", pack_fields([b""])),
        (bytes | None, b"v", pack_fields([b"v"])),
    ],
)
def test_reply_is_framed_by_its_type(hint, value, reply):
    assert returning(hint, value) == reply


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (None, 1, "returned int, expected None"),
        (str, b"x", "returned bytes, expected str"),
        (str, None, "returned NoneType, expected str"),
        (int, 1.5, "returned float, expected int"),
        (str | None, 3, "returned int, expected str"),
        (tuple[str, str], ("x",), "returned tuple, expected a tuple of 2"),
        (tuple[str, str], ["x", "y"], "returned list, expected a tuple of 2"),
        (tuple[str, int], ("x", "y"), "returned str, expected int"),
    ],
)
def test_reply_of_another_type_is_a_type_error(hint, value, message):
    with pytest.raises(TypeError, match=message):
        returning(hint, value)


def test_json_reply_cannot_hold_nan():
    with pytest.raises(ValueError, match="not JSON compliant"):
        returning(list[float], [float("nan")])


def bad_signatures():  # noqa: C901 - a list of functions, nothing is branched on
    def float_parameter(_call, x: float) -> None: ...
    def bare_parameter(_call, x) -> None: ...
    def pairs_first(_call, pairs: list[tuple[str, str]], x: str) -> None: ...
    def keyword_only(_call, *, x: str) -> None: ...
    def variadic(_call, *x: str) -> None: ...
    def bare_result(_call, x: str): ...
    def float_result(_call) -> float: ...
    def two_kinds(_call) -> str | int: ...
    def optional_tuple(_call) -> tuple[str, str] | None: ...
    def any_tuple(_call) -> tuple[str, ...]: ...

    return list(locals().values())


@pytest.mark.parametrize("function", bad_signatures(), ids=lambda function: function.__name__)
def test_signature_without_framing_is_a_type_error_when_decorated(function):
    with pytest.raises(TypeError):
        capability("test.ask")(function)


def test_decorator_keeps_name_kind_and_aliases():
    @capability("test.ask", blocking=True, aliases=("test.other",))
    def ask(_call, text: str) -> str:
        """Ask."""
        return text

    assert isinstance(ask, berm.Capability)
    assert (ask.name, ask.blocking, ask.aliases, ask.is_async) == ("test.ask", True, ("test.other",), False)
    assert ask.function.__doc__ == "Ask."


def test_async_function_makes_an_async_capability():
    @capability("test.ask")
    async def ask(_call, text: str) -> str:
        await anyio.lowlevel.checkpoint()
        return text * 2

    assert ask.is_async
    assert anyio.run(ask.function, None, pack_fields([b"ab"])) == b"abab"


def test_methods_and_closures_can_be_decorated():
    class Store:
        def get(self, _call, key: str) -> bytes | None:
            return {"a": b"1"}.get(key)

    run = capability("berm.get")(Store().get).function
    assert unpack_fields(run(None, pack_fields([b"a"]))) == [b"1"]
    assert unpack_fields(run(None, pack_fields([b"b"]))) == []


def test_guest_reads_a_framed_capability(loaded):
    @capability("test.ask")
    def ask(call, one: str, two: int) -> dict:
        return {"one": one, "two": two, "tool": call.tool}

    text = loaded(ask).call("ask", pack_fields([b"x", b"3"])).text
    assert json.loads(text.removeprefix("0:")) == {"one": "x", "two": 3, "tool": "ask"}
    assert loaded(ask).call("ask", b"\1").text == "2:field 0 at byte 0: 1 bytes left, expected a u32 length"

"""What a capability sees, what a guest hears back, and that nothing in one can hurt the host."""

import gc
import logging
import time

import pytest

import berm
from berm import Capability, TrapCode

pytestmark = pytest.mark.core

ERROR, REFUSED = "2:", "3:"  # the two top bits of the length, as the plain guest shows them


def asking(function, **options):
    return Capability("test.ask", function, **options)


def test_request_and_reply_are_bytes(loaded):
    harness = loaded(asking(lambda _call, request: request[::-1]))
    assert harness.call("ask", b"abc").text == "0:cba"


def test_empty_reply(loaded):
    assert loaded(asking(lambda _call, _request: b"")).call("ask", b"abc").text == "0:"


def test_call_carries_the_facts_of_the_invocation(loaded):
    seen = []
    context = object()

    def look(call, _request):
        seen.append(call)
        return b""

    loaded(asking(look)).call("ask", "", context=context, limits=berm.Limits(deadline=10), depth=3)
    (call,) = seen
    assert call.context is context
    assert call.depth == 3
    assert call.tool == "ask"
    assert 9 < call.deadline_left <= 10
    assert call.invocation_id > 0
    assert isinstance(call.chain, berm.Chain)
    assert call.cancelled is False
    assert call.tasks is None


def test_call_is_frozen(loaded):
    seen = []
    loaded(asking(lambda call, _request: seen.append(call) or b"")).call("ask", "")
    for name in (
        "context",
        "depth",
        "invocation_id",
        "chain",
        "deadline_left",
        "cancelled",
        "tasks",
        "other",
    ):
        with pytest.raises(AttributeError):
            setattr(seen[0], name, 1)


def test_call_is_one_object_for_an_invocation_and_another_for_the_next(loaded):
    seen = []
    harness = loaded(asking(lambda call, _request: seen.append(call) or b"x"))
    harness.call("ask_often", "3")
    harness.call("ask_often", "1")
    assert seen[0] is seen[1] is seen[2]
    assert seen[3] is not seen[0]
    assert seen[3].invocation_id != seen[0].invocation_id
    assert seen[0].chain is seen[1].chain


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (ValueError("no such thing"), "no such thing"),
        (KeyError("k"), "'k'"),
        (RuntimeError(), "RuntimeError"),
        (OSError(2, "No such file", "x"), "[Errno 2] No such file: 'x'"),
        (StopIteration(), "StopIteration"),
        (RecursionError("deep"), "deep"),
        (ValueError("\ud800"), "?"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_exception_becomes_an_error_reply(loaded, error, heard):
    def raising(_call, _request):
        raise error

    assert loaded(asking(raising)).call("ask", "").text == ERROR + heard


def test_exception_whose_text_raises_is_named_by_its_type(loaded):
    class NastyError(Exception):
        def __str__(self):
            raise RuntimeError

    def raising(_call, _request):
        raise NastyError

    assert loaded(asking(raising)).call("ask", "").text == ERROR + "NastyError"


def test_exception_whose_text_is_odd_is_still_text(loaded):
    class Text(str):
        __slots__ = ()

        def encode(self, *_arguments):
            return None

    class NastyError(Exception):
        def __str__(self):
            return Text("odd")

    def raising(_call, _request):
        raise NastyError

    assert loaded(asking(raising)).call("ask", "").text == ERROR + "odd"


def test_long_exception_text_is_cut(loaded):
    def raising(_call, _request):
        raise ValueError("x" * 100_000)

    assert loaded(asking(raising)).call("ask", "").text == ERROR + "x" * 4096 + "…"


def test_refused_sets_only_the_error_bit_elsewhere(loaded):
    def refusing(_call, _request):
        raise berm.Refused("not you")

    assert loaded(asking(refusing)).call("ask", "").text == ERROR + "not you"


def test_refused_sets_its_own_bit_on_get(loaded):
    def refusing(_call, _request):
        raise berm.Refused("not you")

    assert loaded(Capability("berm.get", refusing)).call("get", "").text == REFUSED + "not you"


def test_other_exceptions_of_get_set_only_the_error_bit(loaded):
    def raising(_call, _request):
        raise ValueError("bad key")

    assert loaded(Capability("berm.get", raising)).call("get", "").text == ERROR + "bad key"


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "NoneType"), ("text", "str"), (bytearray(b"x"), "bytearray"), (3, "int"), ([], "list")],
)
def test_reply_that_is_not_bytes_is_an_error_for_the_guest_and_logged(loaded, value, kind, caplog):
    harness = loaded(asking(lambda _call, _request: value))
    assert harness.call("ask", "").text == ERROR + f"capability `test.ask` returned {kind}, expected bytes"
    assert [record.getMessage() for record in caplog.records] == [
        f"capability test.ask returned {kind}, expected bytes"
    ]


def test_coroutine_from_a_plain_function_is_closed_and_an_error(loaded):
    async def later():
        return b""

    harness = loaded(asking(lambda _call, _request: later()))
    assert "returned coroutine, expected bytes" in harness.call("ask", "").text
    gc.collect()


def test_reply_beyond_the_output_limit_is_an_error(loaded):
    harness = loaded(asking(lambda _call, _request: b"x" * 101))
    outcome = harness.call("ask", "", limits=berm.Limits(output=100))
    assert outcome.text == ERROR + "reply of 101 bytes, the limit is 100"


@pytest.mark.usefixtures("no_guest_left")
def test_interrupt_from_the_keyboard_goes_through(loaded):
    def interrupted(_call, _request):
        raise KeyboardInterrupt

    harness = loaded(asking(interrupted))
    with pytest.raises(KeyboardInterrupt):
        harness.call("ask", "")
    assert harness.call("count", "").text == "1"


def test_capability_may_call_the_same_harness(loaded):
    def recurse(call, request):
        if call.depth == 3:
            return request
        return harness.call("ask", request, depth=call.depth + 1).data

    harness = loaded(asking(recurse))
    assert harness.call("ask", "x").text == "0:0:0:0:x"


def test_endless_reentry_ends_as_an_error_of_the_innermost_guest(loaded):
    harness = loaded(asking(lambda _call, request: harness.call("ask", request).data))
    outcome = harness.call("ask", "x")
    assert "recursion" in outcome.text


def test_capability_may_not_drive_its_own_invocation(loaded):
    seen = []

    def meddle(_call, _request):
        for method in (
            invocation.advance,
            invocation.run,
            invocation.compute,
            invocation.close,
            invocation.expire,
        ):
            with pytest.raises(RuntimeError) as caught:
                method()
            seen.append(str(caught.value))
        for method in (invocation.reply, invocation.reply_error):
            with pytest.raises(RuntimeError):
                method(b"")
        return b"fine"

    invocation = loaded(asking(meddle)).start("ask", "")
    assert invocation.run().text == "0:fine"
    assert seen[0] == "the invocation is being driven already"


def test_capability_may_close_the_engine(plain_image):
    engine = berm.Engine(berm.Config())
    harness = berm.Harness.load(
        engine, plain_image, [asking(lambda _call, _request: engine.close() or b"closed")]
    )
    assert harness.call("ask", "").text == "0:closed"
    with pytest.raises(ValueError, match="closed"):
        berm.Harness.load(engine, plain_image)


def test_capability_may_drop_its_harness(engine, plain_image):
    holder = []

    def drop(_call, _request):
        holder.clear()
        gc.collect()
        return b"gone"

    holder.append(berm.Harness.load(engine, plain_image, [asking(drop)]))
    invocation = holder[0].start("ask", "")
    assert invocation.run().text == "0:gone"


@pytest.mark.usefixtures("no_guest_left")
def test_async_capability_in_a_synchronous_call_is_an_error_that_names_it(loaded):
    async def later(_call, _request):
        return b""

    harness = loaded(asking(later))
    with pytest.raises(berm.AsyncCapabilityError) as caught:
        harness.call("ask", "")
    assert caught.value.capability == "test.ask"
    assert str(caught.value) == "capability `test.ask` is async, so this tool needs `berm.aio.call`"
    assert harness.call("count", "").text == "1"


def test_blocking_capability_runs_in_a_synchronous_call(loaded):
    assert loaded(asking(lambda _call, _request: b"ok", blocking=True)).call("ask", "").text == "0:ok"


def test_deadline_bounds_the_time_in_capabilities(loaded):
    harness = loaded(asking(lambda _call, _request: time.sleep(0.01) or b"x"))
    with pytest.raises(berm.Trap) as caught:
        harness.call("ask_often", "1000000", limits=berm.Limits(deadline=0.05))
    assert caught.value.code is TrapCode.DEADLINE
    assert caught.value.host_calls[-1] == "test.ask"


def test_fuel_stands_still_while_a_capability_runs(loaded):
    harness = loaded(asking(lambda _call, _request: b"x"))
    assert harness.call("ask", "").instructions < 200


def test_aliases_reach_the_same_function(loaded):
    def read(_call, request):
        return request

    harness = loaded(Capability("test.other", read, aliases=("test.ask",)))
    assert harness.call("ask", "x").text == "0:x"


@pytest.mark.parametrize("function", [None, "x", 3])
def test_function_has_to_be_callable(function):
    with pytest.raises(TypeError, match="expected a function"):
        Capability("test.ask", function)


@pytest.mark.parametrize(
    "name", ["", "ask", "Test.ask", "test..ask", "test.ask ", "test.\n", "x." + "y" * 128]
)
def test_malformed_name_is_a_value_error(name):
    with pytest.raises(ValueError, match="is not lower-case words joined by dots"):
        Capability(name, len)


def test_async_and_blocking_exclude_each_other():
    async def later(_call, _request):
        return b""

    with pytest.raises(ValueError, match="an async function cannot be blocking"):
        Capability("test.ask", later, blocking=True)


def test_callable_object_may_be_async():
    class Later:
        async def __call__(self, _call, _request):
            return b""

    assert Capability("test.ask", Later()).is_async
    assert not Capability("test.ask", len).is_async


def test_capability_is_immutable():
    with pytest.raises(AttributeError):
        asking(len).name = "x"


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["test.ask", "test.ask"], "capability is bound twice"),
        (["berm.log"], "capability is always present and cannot be replaced"),
        (["berm.fs.raed"], "capability is no name of the ABI"),
        (["crabtalk.fs.stat"], "capability is no name of the ABI"),
        (["crabtalk.protocol.call"], "capability is retired and never registered, bind berm.call, "),
    ],
)
def test_names_that_cannot_be_bound_are_a_link_error(loaded, names, problem):
    with pytest.raises(berm.LinkError) as caught:
        loaded(*(Capability(name, len) for name in names))
    assert caught.value.problem.startswith(problem)
    assert caught.value.name == names[-1]


def test_alias_that_is_taken_is_a_link_error(loaded):
    with pytest.raises(berm.LinkError, match="bound twice"):
        loaded(Capability("test.ask", len), Capability("test.other", len, aliases=("test.ask",)))


def test_only_capabilities_can_be_bound(loaded):
    with pytest.raises(TypeError, match="expected a Capability, got function"):
        loaded(lambda _call, _request: b"")


def test_log_lines_reach_the_log_in_order_and_before_the_next_capability(engine, plain_image):
    lines = []
    harness = berm.Harness.load(
        engine, plain_image, log=lambda call, line: lines.append((call.tool, call.context, line))
    )
    assert harness.call("logs", "", context=7).text == "logged"
    assert lines == [("logs", 7, "one"), ("logs", 7, "two")]


def test_log_lines_go_to_logging_by_default_escaped(plain, caplog):
    with caplog.at_level(logging.INFO, "berm.guest"):
        plain.call("logs_args", b"a\x1b[2J\nb\xff")
    assert [record.getMessage() for record in caplog.records] == ["logs_args: a\\x1b[2J\\nb\ufffd"]


@pytest.mark.usefixtures("no_guest_left")
def test_log_that_raises_ends_the_call(engine, plain_image):
    def broken(_call, _line):
        raise ZeroDivisionError

    harness = berm.Harness.load(engine, plain_image, log=broken)
    with pytest.raises(ZeroDivisionError):
        harness.call("logs", "")
    assert harness.call("count", "").text == "1"

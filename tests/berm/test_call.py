"""Calling tools: arguments in, the three outcomes out, nothing kept between two calls."""

import pickle

import pytest

import berm
from berm import TrapCode

pytestmark = pytest.mark.core


def trapped(harness, tool, args="", **options):
    with pytest.raises(berm.Trap) as caught:
        harness.call(tool, args, **options)
    return caught.value


def test_result_is_the_bytes_that_the_guest_returned(plain):
    outcome = plain.call("echo", b"hello")
    assert outcome == berm.Done(b"hello", outcome.duration_ns, outcome.instructions)
    assert (outcome.data, outcome.text) == (b"hello", "hello")
    assert outcome.instructions > 10
    assert outcome.duration_ns > 0


def test_instructions_are_the_same_for_the_same_call(plain):
    assert plain.call("echo", b"x").instructions == plain.call("echo", b"x").instructions


def test_text_arguments_are_utf8(plain):
    assert plain.call("echo", "café ☃").text == "café ☃"


@pytest.mark.parametrize("args", [None, 3, ["x"], bytearray(b"x")])
def test_arguments_of_other_types_are_a_type_error(plain, args):
    with pytest.raises(TypeError, match="args: expected bytes or str"):
        plain.call("echo", args)


def test_empty_arguments_and_results(plain):
    assert plain.call("echo", b"").data == b""
    assert plain.call("nothing", b"").data == b""


def test_argument_length_is_known_before_reading(plain):
    assert plain.call("args_len", b"x" * 100_000).text == "100000"


def test_short_buffer_gets_a_prefix_and_the_full_length(plain):
    assert plain.call("args_short", b"\1\1\1\1\1\1").text == str(6 * 1000 + 1 + 0)


def test_failed_carries_the_message(plain):
    outcome = plain.call("fails", "no such file")
    assert outcome == berm.Failed("no such file", outcome.duration_ns, outcome.instructions)


def test_last_failure_message_wins(plain):
    assert plain.call("fails_twice", "").message == "second"


def test_failure_message_that_is_not_utf8_is_repaired(plain):
    assert plain.call("fails", b"caf\xe9").message == "caf\ufffd"


def test_failure_message_is_cut_at_the_output_limit(plain):
    outcome = plain.call("fails", b"x" * 50, limits=berm.Limits(output=8))
    assert outcome.message == "xxxxxxxx… (42 bytes cut)"


def test_heap_is_page_aligned_zero_and_writable(plain):
    assert [plain.call("heap", "").text for _ in range(2)] == ["ok", "ok"]


def test_nothing_is_kept_from_one_call_to_the_next(plain):
    assert [plain.call("count", "").text for _ in range(5)] == ["1"] * 5


def test_result_that_is_not_utf8_is_a_trap(plain):
    trap = trapped(plain, "latin1")
    assert trap.code is TrapCode.BAD_RESULT
    assert trap.detail == "result is not UTF-8 at byte 3"
    assert trap.symbol == "berm_tool_latin1"


def test_raw_admits_a_result_that_is_not_utf8(plain):
    outcome = plain.call("latin1", "", raw=True)
    assert outcome.data == b"caf\xe9"
    with pytest.raises(UnicodeDecodeError):
        _ = outcome.text


def test_utf8_result_is_accepted(plain):
    assert plain.call("utf8", "").text == "café"


def test_unknown_tool_is_named_with_those_that_there_are(plain):
    with pytest.raises(berm.NoSuchTool) as caught:
        plain.call("ech", "")
    assert caught.value.name == "ech"
    assert caught.value.tools == plain.tools
    assert str(caught.value).startswith("no tool `ech` in this image: it has echo, args_len, ")


@pytest.mark.parametrize("tool", ["", "berm_tool_echo", "on_wake", "echo\0", "\ud800"])
def test_only_tools_can_be_called_by_name(plain, tool):
    with pytest.raises(berm.NoSuchTool):
        plain.call(tool, "")


@pytest.mark.parametrize("tool", [None, 3, b"echo"])
def test_tool_name_of_another_type_is_a_type_error(plain, tool):
    for call in (plain.call, plain.start):
        with pytest.raises(TypeError):
            call(tool, "")


def test_wake_and_notify_enter_their_functions(plain):
    assert plain.wake(b"at nine").data == b"at nine"
    assert plain.notify("news").message == "nothing to say"
    assert (plain.has_wake, plain.has_notify) == (True, True)


def test_image_without_on_wake_cannot_be_woken(attacks):
    for call in (attacks.wake, attacks.start_wake):
        with pytest.raises(berm.NoSuchEntry) as caught:
            call("")
        assert caught.value.name == "on_wake"
        assert str(caught.value) == "image exports no `on_wake`"
    with pytest.raises(berm.NoSuchEntry, match="on_notify"):
        attacks.notify("")
    assert (attacks.has_wake, attacks.has_notify) == (False, False)


def test_unbound_capability_is_a_trap_that_names_it(plain):
    trap = trapped(plain, "unbound", "path")
    assert trap.code is TrapCode.UNKNOWN_HOST_CALL
    assert trap.number == berm.fnv.call_number("berm.fs.read")
    assert trap.name == "berm.fs.read"
    assert "`berm.fs.read` is not bound here" in str(trap)
    assert trap.detail == ""
    assert trap.host_calls[-1] == "berm.args.read"


def test_retired_capability_names_its_replacements(plain):
    trap = trapped(plain, "retired", "")
    assert trap.code is TrapCode.UNKNOWN_HOST_CALL
    assert trap.name == "crabtalk.protocol.call"
    assert trap.detail.startswith("retired, use berm.call, crabtalk.agent.send, crabtalk.wake.*")
    assert trap.detail in str(trap)


def test_unheard_of_number_is_shown(plain):
    trap = trapped(plain, "unheard", "")
    assert trap.code is TrapCode.UNKNOWN_HOST_CALL
    assert trap.name is None
    assert f"{berm.fnv.call_number('test.unheard'):#x}" in str(trap)


def test_trap_shows_where_the_guest_stood(plain):
    trap = trapped(plain, "unbound", "")
    assert trap.symbol == "berm_tool_unbound"
    assert "berm_tool_unbound" in trap.report()
    assert pickle.loads(pickle.dumps(trap)).report() == trap.report()


def test_out_of_fuel_is_a_trap_and_exact(plain):
    needed = plain.call("echo", "x").instructions
    assert plain.call("echo", "x", limits=berm.Limits(fuel=needed)).instructions == needed
    trap = trapped(plain, "echo", "x", limits=berm.Limits(fuel=needed - 1))
    assert trap.code is TrapCode.OUT_OF_FUEL
    assert trap.detail == f"all {needed - 1} instructions are used"


def test_out_of_fuel_beyond_the_first_slice(plain):
    trap = trapped(plain, "compute", "100000000", limits=berm.Limits(fuel=1_000_000))
    assert trap.code is TrapCode.OUT_OF_FUEL
    assert trap.symbol is not None


def test_long_computation_returns(plain):
    outcome = plain.call("compute", "5000000")
    assert outcome.text == "5000000"
    assert outcome.instructions > 10_000_000


def test_deadline_ends_a_computation(plain):
    trap = trapped(plain, "compute", "9000000000", limits=berm.Limits(deadline=0.05))
    assert trap.code is TrapCode.DEADLINE
    assert "not finished after 0.05" in trap.detail


def test_result_beyond_the_output_limit_is_a_trap(plain):
    limits = berm.Limits(output=10)
    assert plain.call("echo", b"x" * 10, limits=limits).data == b"x" * 10
    trap = trapped(plain, "echo", b"x" * 11, limits=limits)
    assert trap.code is TrapCode.OUTPUT_LIMIT
    assert trap.detail == "result of 11 bytes, the limit is 10"
    assert trap.symbol == "berm_tool_echo"


def test_limits_of_another_type_are_a_type_error(plain):
    with pytest.raises(TypeError):
        plain.call("echo", "", limits={"fuel": 1})


@pytest.mark.usefixtures("no_guest_left")
def test_harness_is_usable_after_every_kind_of_end(plain):
    for _ in range(20):
        trapped(plain, "unbound")
        trapped(plain, "latin1")
        trapped(plain, "compute", "9999999", limits=berm.Limits(fuel=100))
        assert plain.call("fails", "x").message == "x"
        assert plain.call("count", "").text == "1"

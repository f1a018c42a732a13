"""`berm.call`: harnesses that call harnesses, in data, within one chain."""

import logging

import pytest

import berm
from berm import Capability, TrapCode
from berm.wire import pack_fields

pytestmark = pytest.mark.core


def request(harness, tool, args=b""):
    return pack_fields([harness.encode(), tool.encode(), args])


@pytest.fixture
def caller(engine, plain_image):
    """Return a harness that reaches itself as `self` and a plain one as `plain`, and the map of both."""
    reach = {}
    harness = berm.Harness.load(engine, plain_image, [berm.calls(lambda _call, name: reach.get(name))])
    reach["self"] = harness
    reach["plain"] = berm.Harness.load(engine, plain_image)
    return harness


def nested(depth, tool, args):
    """Build the arguments that make `call` call itself `depth` times and then `tool`."""
    inner = request("plain", tool, args)
    for _ in range(depth):
        inner = request("self", "call", inner)
    return inner


@pytest.mark.usefixtures("no_guest_left")
def test_result_of_the_callee_is_the_reply(caller):
    assert caller.call("call", request("plain", "echo", b"hello")).text == "0:hello"


def test_failure_of_the_callee_is_an_error_reply(caller):
    assert caller.call("call", request("plain", "fails", b"sorry")).text == "2:sorry"


@pytest.mark.usefixtures("no_guest_left")
def test_death_of_the_callee_is_an_error_reply_and_logged(caller, caplog):
    with caplog.at_level(logging.WARNING, "berm.guest"):
        assert caller.call("call", request("plain", "unbound")).text == "2:`unbound` died: unknown host call"
    assert "berm_tool_unbound" in caplog.text


def test_result_of_the_callee_may_be_any_bytes(caller):
    assert caller.call("call", request("plain", "latin1"), raw=True).data == b"0:caf\xe9"


@pytest.mark.parametrize(
    ("harness", "tool", "heard"),
    [
        ("nobody", "echo", "no such harness: nobody"),
        ("plain", "nothing_like_it", "no tool `nothing_like_it` in this image: it has echo, "),
    ],
)
def test_unknown_harness_or_tool_is_refused(caller, harness, tool, heard):
    assert caller.call("call", request(harness, tool)).text.startswith("3:" + heard)


@pytest.mark.parametrize(
    "bad", [b"", b"\1", b"\xff\xff\xff\xff", pack_fields([b"a", b"b"]), pack_fields([b"\xff"] * 3)]
)
def test_malformed_request_is_an_error_reply(caller, bad):
    assert caller.call("call", bad, raw=True).data.startswith(b"2:")


@pytest.mark.usefixtures("no_guest_left")
def test_harnesses_nest_as_deep_as_the_chain_allows(caller):
    assert caller.call("call", nested(7, "echo", b"x")).text == "0:" * 8 + "x"
    assert caller.call("call", nested(8, "echo", b"x")).text == "0:" * 8 + "3:depth 9 is beyond the chain's 8"


def test_depth_is_an_argument(caller):
    assert "3:depth 9 is beyond" in caller.call("call", request("plain", "echo"), depth=8).text


def test_nesting_costs_no_stack(caller):
    chain = berm.Chain(max_depth=1000)
    invocation = caller.start("call", nested(60, "echo", b"x"), chain=chain)
    assert invocation.run().text == "0:" * 61 + "x"


@pytest.mark.usefixtures("no_guest_left")
def test_nesting_has_an_end_even_if_the_chain_has_none(caller):
    chain = berm.Chain(max_depth=1000, invocations=1000)
    text = caller.call("call", nested(70, "echo", b"x"), chain=chain).text
    assert text == "0:" * 63 + "2:more than 64 harnesses wait for each other"


def test_chain_counts_invocations(caller):
    chain = berm.Chain(invocations=3)
    assert caller.call("call", nested(2, "echo", b"x"), chain=chain).text == "0:0:0:x"
    assert chain.invocations_left == 0
    refused = caller.call("call", request("plain", "echo"), chain=chain).text
    assert refused == "3:the chain has started all the invocations that it may"


def test_chain_counts_fuel_of_all_its_guests(caller):
    chain = berm.Chain(fuel=1_000_000)
    outcome = caller.call("call", request("plain", "compute", b"10000"), chain=chain)
    assert outcome.text == "0:10000"
    assert outcome.instructions < 1000
    assert 30_000 < 1_000_000 - chain.fuel_left < 200_000


def test_callee_is_bounded_by_what_its_chain_has_left(caller):
    chain = berm.Chain(fuel=1_000_000)
    with pytest.raises(berm.Trap) as caught:
        caller.call("call", request("plain", "compute", b"100000000"), chain=chain)
    assert caught.value.code is TrapCode.OUT_OF_FUEL
    assert caught.value.detail == "the chain has used all its fuel"
    assert chain.fuel_left == 0


def test_guests_of_one_invocation_share_a_chain_that_nobody_gave(engine, plain_image):
    chains = []
    look = Capability("test.ask", lambda call, _request: chains.append(call.chain) or b"")
    inner = berm.Harness.load(engine, plain_image, [look])
    outer = berm.Harness.load(
        engine, plain_image, [berm.calls(lambda call, _name: chains.append(call.chain) or inner)]
    )
    outer.call("call", request("inner", "ask"))
    assert chains[0] is chains[1]
    assert chains[0].invocations_left == 255


def test_callee_sees_depth_context_and_an_id_of_its_own(engine, plain_image):
    calls = []
    look = Capability("test.ask", lambda call, _request: calls.append(call) or b"")
    inner = berm.Harness.load(engine, plain_image, [look])
    outer = berm.Harness.load(
        engine, plain_image, [berm.calls(lambda call, _name: calls.append(call) or inner)]
    )
    outer.call("call", request("inner", "ask"), context="c", depth=2)
    assert [call.depth for call in calls] == [2, 3]
    assert [call.context for call in calls] == ["c", "c"]
    assert calls[0].invocation_id != calls[1].invocation_id


def test_callee_cannot_outlive_the_deadline_of_its_caller(caller):
    with pytest.raises(berm.Trap) as caught:
        caller.call("call", request("plain", "compute", b"9000000000"), limits=berm.Limits(deadline=0.05))
    assert caught.value.code is TrapCode.DEADLINE


def test_callee_has_limits_of_its_own(engine, plain_image):
    inner = berm.Harness.load(engine, plain_image)
    outer = berm.Harness.load(
        engine, plain_image, [berm.calls(lambda _call, _name: inner, limits=berm.Limits(fuel=100))]
    )
    assert outer.call("call", request("x", "compute", b"1000")).text == "2:`compute` died: out of fuel"


@pytest.mark.usefixtures("no_guest_left")
def test_interrupt_ends_callee_and_callers(engine, plain_image):
    wait = Capability("test.wait", lambda _call, _request: b"", blocking=True)
    inner = berm.Harness.load(engine, plain_image, [wait])
    outer = berm.Harness.load(engine, plain_image, [berm.calls(lambda _call, _name: inner)])
    invocation = outer.start("call", request("x", "wait", b"y"))
    step = invocation.advance()
    assert step.call.tool == "wait"
    assert invocation.nesting == 2
    assert len(invocation.running_ids) == 2
    invocation.interrupt()
    invocation.reply(b"")
    with pytest.raises(berm.Trap) as caught:
        invocation.advance()
    assert caught.value.code is TrapCode.INTERRUPTED
    assert invocation.closed


@pytest.mark.usefixtures("no_guest_left")
def test_close_drops_callee_and_callers(engine, plain_image):
    wait = Capability("test.wait", lambda _call, _request: b"", blocking=True)
    inner = berm.Harness.load(engine, plain_image, [wait])
    outer = berm.Harness.load(engine, plain_image, [berm.calls(lambda _call, _name: inner)])
    invocation = outer.start("call", request("x", "wait", b"y"))
    invocation.advance()
    invocation.close()
    assert invocation.nesting == 0


def test_resolver_that_raises_is_an_error_reply(engine, plain_image):
    def resolve(_call, _name):
        raise LookupError("resolver is down")

    harness = berm.Harness.load(engine, plain_image, [berm.calls(resolve)])
    assert harness.call("call", request("x", "echo")).text == "2:resolver is down"


@pytest.mark.usefixtures("no_guest_left")
def test_invocation_that_runs_already_cannot_be_returned(engine, plain_image):
    plain = berm.Harness.load(engine, plain_image)
    begun = plain.start("compute", "100000000")
    begun.advance()
    finished = plain.start("echo", "x")
    finished.run()
    for child in (begun, finished):
        harness = berm.Harness.load(
            engine, plain_image, [Capability("test.ask", lambda _call, _request, child=child: child)]
        )
        assert harness.call("ask", "").text == "2:the capability returned an invocation that cannot be run"
    begun.close()


@pytest.mark.usefixtures("no_guest_left")
def test_invocation_that_returns_itself_is_an_error(engine, plain_image):
    holder = []
    harness = berm.Harness.load(
        engine, plain_image, [Capability("test.ask", lambda _call, _request: holder[0])]
    )
    holder.append(harness.start("ask", ""))
    assert holder[0].run().text.startswith("2:the capability returned an invocation")


@pytest.mark.parametrize(
    "options",
    [{"max_depth": 0}, {"invocations": 0}, {"fuel": 0}, {"deadline": 0}, {"deadline": float("nan")}],
)
def test_chain_without_room_is_a_value_error(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        berm.Chain(**options)


def test_chain_past_its_deadline_admits_nothing_and_ends_its_guests(caller):
    chain = berm.Chain(deadline=1e-9)
    assert chain.admit(1) == "the chain's deadline has passed"
    with pytest.raises(berm.Trap) as caught:
        caller.call("compute", "900000000", chain=chain)
    assert caught.value.code is TrapCode.DEADLINE

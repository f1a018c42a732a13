"""The queue decides who runs: limits, fairness, classes, keys and rates, without a clock or a task."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crabtalk import tickets
from crabtalk.errors import Busy
from crabtalk.rates import Rate
from crabtalk.tickets import State
from crabtalk.work_queue import Overloaded, QueueLimits, WorkQueue


def queue_of(**limits):
    return WorkQueue(QueueLimits(**limits))


class Ticket(tickets.Ticket):
    """With the name of its owner, for the tests to read."""

    name = ""


def admit(queue, owner="a/h", *, interactive=True, key=None, inherits=False, concurrency=100, **options):
    ticket = Ticket(interactive=interactive, key=key, inherits=inherits)
    ticket.name = owner
    queue.admit(ticket, tuple(owner.split("/")), concurrency=concurrency, **options)
    return ticket


def test_work_runs_at_once_while_there_are_slots():
    queue = queue_of(slots=2)
    first, second, third = (admit(queue) for _ in range(3))
    assert [t.state for t in (first, second, third)] == [State.RUNNING, State.RUNNING, State.QUEUED]
    queue.finish(first)
    assert queue.start_ready() == [third]
    assert third.state is State.RUNNING


def test_one_agent_cannot_have_all_slots():
    queue = queue_of(slots=10, slots_of_agent=3)
    flood = [admit(queue, "a/h") for _ in range(20)]
    assert Counter(t.state for t in flood) == {State.RUNNING: 3, State.QUEUED: 17}
    assert admit(queue, "b/h").state is State.RUNNING


def test_agents_take_turns_however_much_one_of_them_queued():
    queue = queue_of(slots=1)
    running = admit(queue, "a/h")
    for _ in range(50):
        admit(queue, "a/h")
    for _ in range(3):
        admit(queue, "b/h")
        admit(queue, "c/h")
    order = []
    for _ in range(9):
        queue.finish(running)
        (running,) = queue.start_ready()
        order.append(running.name)
    assert order == ["a/h", "b/h", "c/h"] * 3


def test_harnesses_of_an_agent_take_turns():
    queue = queue_of(slots=1)
    running = admit(queue, "a/x")
    for _ in range(5):
        admit(queue, "a/x")
    admit(queue, "a/y")
    order = []
    for _ in range(3):
        queue.finish(running)
        (running,) = queue.start_ready()
        order.append(running.name)
    assert order == ["a/x", "a/y", "a/x"]


def test_a_harness_is_first_come_first_served():
    queue = queue_of(slots=1)
    running = admit(queue)
    waiting = [admit(queue) for _ in range(5)]
    order = []
    for _ in waiting:
        queue.finish(running)
        (running,) = queue.start_ready()
        order.append(running)
    assert order == waiting


def test_a_harness_at_its_concurrency_does_not_hold_up_its_agent():
    queue = queue_of(slots=10)
    admit(queue, "a/x", concurrency=1)
    blocked = admit(queue, "a/x", concurrency=1)
    assert blocked.state is State.QUEUED
    assert admit(queue, "a/y").state is State.RUNNING


def test_what_is_newly_declared_counts_at_once():
    queue = queue_of()
    first = admit(queue, concurrency=1)
    second = admit(queue, concurrency=1)
    third = admit(queue, concurrency=3)
    queue.finish(first)
    assert set(queue.start_ready()) == {second, third}


def test_interactive_work_goes_before_background_and_does_not_starve_it():
    queue = queue_of(slots=1)
    running = admit(queue)
    for _ in range(100):
        admit(queue, "a/wakes", interactive=False)
        admit(queue, "a/tools")
    order = []
    for _ in range(36):
        queue.finish(running)
        (running,) = queue.start_ready()
        order.append(running.interactive)
    assert order == ([True] * 8 + [False]) * 4


def test_background_work_leaves_slots_for_people():
    queue = queue_of(slots=4, background_slots=2)
    flood = [admit(queue, interactive=False) for _ in range(5)]
    assert Counter(t.state for t in flood) == {State.RUNNING: 2, State.QUEUED: 3}
    assert admit(queue).state is State.RUNNING
    assert admit(queue, interactive=False).state is State.QUEUED


def test_a_full_queue_refuses():
    queue = queue_of(slots=1, queued=3)
    for _ in range(4):
        admit(queue)
    with pytest.raises(Overloaded, match="the queue is full: 3 calls wait already") as caught:
        admit(queue, "b/h")
    assert (caught.value.code, caught.value.retry_after_s) == (429, 0.0)
    assert isinstance(caught.value, Busy)
    assert queue.statistics().queued == 3


def test_one_agent_cannot_fill_the_queue():
    queue = queue_of(slots=1, queued_of_agent=2)
    for _ in range(3):
        admit(queue, "a/h")
    with pytest.raises(Overloaded, match="queue of this agent is full: 2"):
        admit(queue, "a/h")
    assert admit(queue, "b/h").state is State.QUEUED


def test_rate_is_a_bucket_that_fills_again():
    queue = queue_of()
    rate = Rate(3, 60.0)
    for _ in range(3):
        queue.finish(admit(queue, rate=rate, now_s=100.0))
    with pytest.raises(Overloaded, match=r"rate of `h`, 3 in 60 s, is used up; again in 20 s") as caught:
        admit(queue, rate=rate, now_s=100.0)
    assert caught.value.retry_after_s == pytest.approx(20.0)
    with pytest.raises(Overloaded):
        admit(queue, rate=rate, now_s=119.0)
    admit(queue, rate=rate, now_s=120.1)
    with pytest.raises(Overloaded):
        admit(queue, rate=rate, now_s=120.2)


def test_rate_counts_starts_not_refusals():
    queue = queue_of(slots=1, queued=1)
    rate = Rate(3, 60.0)
    admit(queue, rate=rate)
    admit(queue, rate=rate)
    with pytest.raises(Overloaded, match="queue is full"):
        admit(queue, rate=rate)
    for ticket in queue.start_ready():
        queue.finish(ticket)
    queue_after = queue._owners["a", "h"].bucket.tokens
    assert queue_after == 1.0


def test_the_rate_of_all_counts_every_harness_and_what_was_withdrawn_is_given_back():
    queue = queue_of(rate=Rate(3, 60.0))
    own = Rate(2, 60.0)
    admit(queue, "a/x", rate=own)
    admit(queue, "a/x", rate=own)
    with pytest.raises(Overloaded, match="the rate of `x`, 2 in 60 s"):
        admit(queue, "a/x", rate=own)  # takes none of all
    last = admit(queue, "b/y")
    with pytest.raises(Overloaded, match="of all harnesses, 3 in 60 s, is used up; again in 20 s") as caught:
        admit(queue, "c/z", now_s=0.0)
    assert caught.value.retry_after_s == pytest.approx(20.0)
    queue.withdraw(last)
    admit(queue, "c/z")
    with pytest.raises(Overloaded, match="of all harnesses"):
        admit(queue, "b/y", now_s=19.9)
    admit(queue, "b/y", now_s=20.1)


def test_what_the_rate_of_all_refuses_takes_nothing_of_its_own_rate():
    queue = queue_of(rate=Rate(1, 60.0))
    own = Rate(2, 60.0)
    admit(queue, rate=own)
    for _ in range(5):
        with pytest.raises(Overloaded, match="of all harnesses"):
            admit(queue, rate=own)
    admit(queue, rate=own, now_s=60.0)


def test_rates_are_each_harness_s_own():
    queue = queue_of()
    rate = Rate(1, 60.0)
    for owner in ("a/x", "a/y", "b/x"):
        admit(queue, owner, rate=rate)
    with pytest.raises(Overloaded):
        admit(queue, "a/x", rate=rate)


def test_a_rate_that_was_lowered_holds_at_once():
    queue = queue_of()
    admit(queue, rate=Rate(100, 60.0))
    for _ in range(2):
        admit(queue, rate=Rate(2, 60.0))
    with pytest.raises(Overloaded):
        admit(queue, rate=Rate(2, 60.0))


def test_a_clock_that_goes_back_gives_nothing():
    queue = queue_of()
    rate = Rate(1, 1.0)
    admit(queue, rate=rate, now_s=100.0)
    with pytest.raises(Overloaded):
        admit(queue, rate=rate, now_s=50.0)


def test_what_may_not_wait_is_left_alone_where_it_would_have_to():
    queue = queue_of(slots=3)
    rate = Rate(2, 60.0)
    first = admit(queue, key="k", rate=rate, may_wait=False)
    assert first.state is State.RUNNING
    for refused in (
        admit(queue, key="k", rate=rate, may_wait=False),
        admit(queue, concurrency=1, rate=rate, may_wait=False),
    ):
        assert (refused.state, refused.owner) == (State.NEW, None)
    assert (queue.statistics().running, queue.statistics().queued) == (1, 0)
    assert admit(queue, rate=rate, may_wait=False).state is State.RUNNING  # none of them took of the rate


def test_what_is_withdrawn_leaves_its_place_its_key_and_its_rate():
    queue = queue_of(slots=1)
    rate = Rate(1, 60.0)
    withdrawn = admit(queue, key="k", rate=rate)
    waiting = admit(queue, "b/h")
    queue.withdraw(withdrawn)
    assert queue.start_ready() == [waiting]
    queue.finish(waiting)
    assert admit(queue, key="k", rate=rate).state is State.RUNNING


def test_one_key_never_runs_twice_at_once():
    queue = queue_of()
    first, second, other = admit(queue, key="k"), admit(queue, key="k"), admit(queue, key="else")
    assert [t.state for t in (first, second, other)] == [State.RUNNING, State.PARKED, State.RUNNING]
    assert admit(queue, "a/other", key="k").state is State.RUNNING
    assert admit(queue, "b/h", key="k").state is State.RUNNING
    queue.finish(first)
    assert queue.start_ready() == []
    queue.release_key(first)
    assert queue.start_ready() == [second]


def test_a_parked_ticket_can_be_taken_out():
    queue = queue_of()
    first, second, third = (admit(queue, key="k") for _ in range(3))
    queue.finish(second)
    queue.release_key(second)
    queue.finish(first)
    queue.release_key(first)
    assert queue.start_ready() == [third]
    assert queue.statistics().queued == 0


def test_a_queued_ticket_that_is_taken_out_gives_its_key_on():
    queue = queue_of(slots=1)
    running = admit(queue)
    first, second = admit(queue, key="k"), admit(queue, key="k")
    queue.finish(first)
    queue.release_key(first)
    queue.finish(running)
    assert queue.start_ready() == [second]


def test_suspended_guests_leave_their_slot():
    queue = queue_of(slots=1)
    first, second = admit(queue), admit(queue)
    queue.suspend(first, 4096)
    assert queue.start_ready() == [second]
    assert queue.statistics() == type(queue.statistics())(1, 0, 1, 4096)
    assert queue.resume(first) is True  # never waits for other agents' guests, nor for the sum of all
    assert queue.statistics().running == 2
    assert admit(queue).state is State.QUEUED


def test_a_guest_that_goes_on_waits_for_its_harness_and_comes_first():
    queue = queue_of()
    first = admit(queue, concurrency=1)
    queued = admit(queue, concurrency=1)
    queue.suspend(first, 0)
    assert queue.start_ready() == [queued]
    later = admit(queue, concurrency=1)
    assert queue.resume(first) is False
    assert first.state is State.URGENT
    queue.finish(queued)
    assert queue.start_ready() == [first]
    queue.finish(first)
    assert queue.start_ready() == [later]


def test_a_guest_that_cleans_up_goes_on_at_once():
    queue = queue_of()
    first = admit(queue, concurrency=1)
    queue.suspend(first, 0)
    second = admit(queue, concurrency=1)
    assert queue.resume(first, at_once=True) is True
    assert (first.state, second.state) == (State.RUNNING, State.RUNNING)
    queue.suspend(second, 0)
    assert queue.resume(second) is False
    assert queue.resume(second, at_once=True) is True


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"suspended": 2}, "2 calls wait for something already"),
        ({"suspended_of_harness": 2}, "2 calls of `h` wait for something already"),
        ({"suspended_bytes": 2048}, "hold 2000 bytes already"),
    ],
)
def test_suspended_guests_have_caps(limits, said):
    queue = queue_of(**limits)
    running = [admit(queue) for _ in range(3)]
    for ticket in running[:2]:
        queue.suspend(ticket, 1000)
    with pytest.raises(Overloaded, match=said):
        queue.suspend(running[2], 1000)
    assert running[2].state is State.RUNNING
    queue.resume(running[0])
    queue.suspend(running[2], 1000)


def test_no_new_work_while_suspended_guests_are_at_their_cap():
    queue = queue_of(suspended_of_harness=1)
    first = admit(queue)
    queue.suspend(first, 0)
    with pytest.raises(Overloaded, match="1 calls of `h`"):
        admit(queue)
    admit(queue, "a/other")
    queue.finish(first)
    admit(queue)


def test_a_callee_takes_the_slot_of_its_caller():
    queue = queue_of(slots=1)
    caller, other = admit(queue, "a/x"), admit(queue, "b/x")
    queue.suspend(caller, 0)
    assert queue.start_ready() == [other]
    callee = admit(queue, "a/y", inherits=True)
    assert callee.state is State.RUNNING


def test_a_callee_waits_for_its_harness_alone():
    queue = queue_of(slots=1)
    busy = admit(queue, "a/y", concurrency=1)
    callee = admit(queue, "a/y", inherits=True, concurrency=1)
    assert callee.state is State.URGENT
    queue.finish(busy)
    assert queue.start_ready() == [callee]


def test_tickets_are_used_as_they_stand():
    queue = queue_of()
    ticket = admit(queue)
    with pytest.raises(ValueError, match="running, not suspended"):
        queue.resume(ticket)
    queue.finish(ticket)
    queue.finish(ticket)
    with pytest.raises(ValueError, match="ended, not running"):
        queue.suspend(ticket, 0)
    queue.finish(Ticket(interactive=True))


def test_owners_without_work_are_forgotten():
    queue = queue_of()
    for number in range(10_000):
        queue.finish(admit(queue, f"{number}/h"))
    assert len(queue._owners) <= 4096
    assert len(queue._agents) <= 4096


def test_rates_outlive_quiet_times_until_the_agent_is_gone():
    queue = queue_of()
    admit(queue, "gone/h", rate=Rate(1, 60.0))
    queue.finish(admit(queue, "kept/h", rate=Rate(1, 60.0)))
    for number in range(10_000):
        queue.finish(admit(queue, f"{number}/h"))
    with pytest.raises(Overloaded):
        admit(queue, "kept/h", rate=Rate(1, 60.0))
    queue.forget("kept")
    admit(queue, "kept/h", rate=Rate(1, 60.0))


class Machine(RuleBasedStateMachine):
    """Any order of everything keeps every bound, loses no ticket, and leaves no slot unused."""

    limits = QueueLimits(
        slots=4,
        slots_of_agent=3,
        background_slots=2,
        queued=8,
        queued_of_agent=5,
        suspended=4,
        suspended_of_harness=3,
        suspended_bytes=100,
    )

    def __init__(self):
        super().__init__()
        self.queue = WorkQueue(self.limits)
        self.tickets = []
        self.overshoot = 0  # guests that went on, beyond what may start

    def of(self, *states):
        return [ticket for ticket in self.tickets if ticket.state in states]

    def settle(self):
        for ticket in self.queue.start_ready():
            assert ticket.state is State.RUNNING

    @rule(
        owner=st.sampled_from(["a/x", "a/y", "b/x"]),
        interactive=st.booleans(),
        key=st.sampled_from([None, None, "k"]),
    )
    def admit(self, owner, interactive, key):
        ticket = Ticket(interactive=interactive, key=key)
        ticket.name = owner
        try:
            runs = self.queue.admit(ticket, tuple(owner.split("/")), concurrency=2)
        except Overloaded:
            assert ticket.state is State.NEW
            return
        assert runs == (ticket.state is State.RUNNING)
        self.tickets.append(ticket)

    @precondition(lambda self: self.of(State.RUNNING))
    @rule(data=st.data())
    def suspend(self, data):
        ticket = data.draw(st.sampled_from(self.of(State.RUNNING)))
        try:
            self.queue.suspend(ticket, 30)
        except Overloaded:
            assert ticket.state is State.RUNNING
        self.settle()

    @precondition(lambda self: self.of(State.SUSPENDED))
    @rule(data=st.data())
    def resume(self, data):
        ticket = data.draw(st.sampled_from(self.of(State.SUSPENDED)))
        assert self.queue.resume(ticket) == (ticket.state is State.RUNNING)
        self.settle()

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def finish(self, data):
        ticket = data.draw(st.sampled_from(self.tickets))
        self.tickets.remove(ticket)
        self.queue.finish(ticket)
        self.queue.release_key(ticket)
        self.settle()

    @invariant()
    def counts_are_right(self):
        statistics = self.queue.statistics()
        assert statistics.running == len(self.of(State.RUNNING))
        assert statistics.queued == len(self.of(State.QUEUED, State.PARKED)) <= self.limits.queued
        assert statistics.suspended == len(self.of(State.SUSPENDED)) <= self.limits.suspended
        assert statistics.suspended_bytes == 30 * statistics.suspended <= self.limits.suspended_bytes

    @invariant()
    def bounds_hold(self):
        running = Counter(ticket.name for ticket in self.of(State.RUNNING))
        assert all(count <= 2 for count in running.values())
        in_flight = Counter(
            (ticket.name, ticket.key)
            for ticket in self.tickets
            if ticket.key and ticket.state is not State.PARKED
        )
        assert all(count == 1 for count in in_flight.values())

    @invariant()
    def no_slot_is_left_unused(self):
        running = self.of(State.RUNNING)
        if len(running) >= self.limits.slots:
            return
        owners = Counter(ticket.name for ticket in running)
        agents = Counter(ticket.name[0] for ticket in running)
        background = sum(not ticket.interactive for ticket in running)
        for ticket in self.of(State.QUEUED):
            assert (
                owners[ticket.name] >= 2
                or agents[ticket.name[0]] >= self.limits.slots_of_agent
                or (not ticket.interactive and background >= self.limits.background_slots)
                or any(other.name == ticket.name for other in self.of(State.URGENT))
            ), ticket.name


Machine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestMachine = Machine.TestCase

"""Wakes, events, agents and recurrences of the SDK, against a host that keeps wakes as the daemon does."""

import base64
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import berm
from berm.wire import pack_fields, unpack_fields
from crabtalk.capabilities.clock import clock
from guest_images import image

START_MS = 1_796_000_000_000  # 2026-11-30 00:53:20 UTC
DAY_MS = 86_400_000
ZONE = "Europe/Berlin"


class Wakes:
    """Pending wakes with keys, a clock that tests move, and everything that was asked."""

    def __init__(self, engine):
        self.now_ms = START_MS
        self.pending = {}  # id -> (at_ms, payload, key)
        self.made = 0
        self.asked = []
        own = {
            "crabtalk.wake.schedule": "schedule",
            "crabtalk.wake.cancel": "cancel",
            "crabtalk.wake.list": "list",
            "berm.clock.now": "now",
        }
        capabilities = [self.capability(name, function) for name, function in own.items()]
        _, offset = clock([ZONE])
        self.harness = berm.Harness.load(engine, image("recurring"), [*capabilities, offset])

    def capability(self, name, function):
        def serve(_call, request):
            fields = unpack_fields(request)
            self.asked.append((name, fields))
            return getattr(self, function)(*fields)

        return berm.Capability(name, serve)

    def now(self):
        return pack_fields([str(self.now_ms).encode(), b"3600", ZONE.encode()])

    def schedule(self, at_ms, payload, key):
        assert len(payload) <= 65536
        for known, (_, _, other) in list(self.pending.items()):
            if key and other == key:
                del self.pending[known]
        self.made += 1
        self.pending[f"w{self.made}"] = (int(at_ms), payload, key)
        return f"w{self.made}".encode()

    def cancel(self, name):
        return b"1" if self.pending.pop(name.decode(), None) else b"0"

    def list(self):
        rows = [{"id": name, "key": key.decode(), "at_ms": at} for name, (at, _, key) in self.pending.items()]
        return json.dumps(rows).encode()

    def start(self, rule, **options):
        outcome = self.harness.call("start", json.dumps({"key": "k", "rule": rule, **options}))
        assert isinstance(outcome, berm.Done), outcome
        return int(outcome.text)

    @property
    def at(self):
        """The instants of the pending wakes."""
        return sorted(at for at, _, _ in self.pending.values())

    def fire(self, late_ms=0):
        """Run the earliest wake, as the daemon does: it is no longer pending while it runs."""
        name, (at_ms, payload, key) = min(self.pending.items(), key=lambda item: item[1][0])
        del self.pending[name]
        self.now_ms = max(self.now_ms, at_ms) + late_ms
        argument = {
            "id": name,
            "key": key.decode(),
            "payload_base64": base64.b64encode(payload).decode(),
            "scheduled_at_ms": at_ms,
            "now_ms": self.now_ms,
            "attempt": 1,
            "reason": "late" if late_ms else "due",
        }
        return self.harness.wake(json.dumps(argument))

    def run(self, late_ms=0):
        """Fire, and return what the body saw as a dict."""
        outcome = self.fire(late_ms)
        assert isinstance(outcome, berm.Done), outcome
        return dict(part.split("=") for part in outcome.text.split()[1:])


@pytest.fixture
def wakes(engine):
    return Wakes(engine)


# ---- the typed wrappers ----


def test_wakes_are_scheduled_listed_and_cancelled(wakes):
    outcome = wakes.harness.call("wakes", json.dumps({"at": -5}))
    assert outcome.text == "w1;w1 key -5;10"
    assert wakes.asked[0] == ("crabtalk.wake.schedule", [b"-5", b"\xff payload", b"key"])


def test_a_wake_without_a_key_has_an_empty_one(engine):
    rows = [{"id": "a", "key": None, "at_ms": 1}, {"id": "b", "at_ms": 2}]
    host = {
        "crabtalk.wake.schedule": b"a",
        "crabtalk.wake.cancel": b"0",
        "crabtalk.wake.list": json.dumps(rows).encode(),
    }
    capabilities = [berm.Capability(name, lambda _c, _r, reply=reply: reply) for name, reply in host.items()]
    harness = berm.Harness.load(engine, image("recurring"), capabilities)
    assert harness.call("wakes", '{"at":1}').text == "a;a  1;b  2;00"


def test_on_wake_reads_what_the_host_gives(wakes):
    argument = {
        "id": "01J",
        "key": "k\u00e9y",
        "payload_base64": base64.b64encode("päyload".encode()).decode(),
        "scheduled_at_ms": 1,
        "now_ms": 2**53,
        "attempt": 3,
        "reason": "late",
    }
    assert wakes.harness.wake(json.dumps(argument)).text == "01J|kéy|päyload|1|9007199254740992|3|1"
    argument |= {"key": None, "reason": "due", "more": [1]}
    assert wakes.harness.wake(json.dumps(argument)).text == "01J||päyload|1|9007199254740992|3|0"


@pytest.mark.parametrize("subscription", [7, "7"])
def test_on_notify_reads_what_the_host_gives(wakes, subscription):
    argument = {
        "id": "01J",
        "source": "build:done",
        "payload": 'line\n"ü"',
        "published_at_ms": 5,
        "subscription": subscription,
    }
    assert wakes.harness.notify(json.dumps(argument)).text == '01J|build:done|line\n"ü"|5|7'


def test_events_are_published_and_subscribed_to(engine):
    asked = []
    replies = {"publish": [b""], "subscribe": [b"12", b"13"], "unsubscribe": [b"1", b"0"]}

    def capability(verb):
        def serve(_call, request):
            asked.append((verb, unpack_fields(request)))
            return replies[verb].pop(0)

        return berm.Capability(f"crabtalk.event.{verb}", serve)

    harness = berm.Harness.load(engine, image("recurring"), map(capability, replies))
    assert harness.call("events", '{"source":"a:b"}').text in {"12 13 10", "12 13 01"}
    assert asked == [
        ("publish", [b"a:b", b"payload"]),
        ("subscribe", [b"a:b", b"1"]),
        ("subscribe", [b"other:*", b"0"]),
        ("unsubscribe", [b"12"]),
        ("unsubscribe", [b"12"]),
    ]


def test_peers_are_listed(engine):
    rows = json.dumps([{"name": "a", "description": "ü\n"}, {"name": "b", "description": ""}]).encode()
    peers = berm.Capability("crabtalk.peers.list", lambda _call, _request: rows)
    assert berm.Harness.load(engine, image("recurring"), [peers]).call("peers", "").text == "a: ü\n;b: ;"


def test_another_agent_is_asked(engine):
    asked = []

    def send(_call, request):
        asked.append(unpack_fields(request))
        if len(asked) > 2:
            raise ValueError("the chain is too deep")
        return "schön".encode()

    harness = berm.Harness.load(engine, image("recurring"), [berm.Capability("crabtalk.agent.send", send)])
    assert harness.call("ask", '{"agent": "bob", "content": "ü\\n"}').text == "0 schön;schön"
    assert asked[0] == [b"bob", "ü\n".encode()]
    assert harness.call("ask", '{"agent": "bob", "content": ""}').message == "the chain is too deep"


def test_skills_are_listed_and_read(engine):
    def get(_call, request):
        if unpack_fields(request) != [b"pdf"]:
            raise ValueError("no skill")
        return b"# how"

    rows = json.dumps([{"name": "pdf", "description": "forms"}, {"name": "x"}]).encode()
    capabilities = [
        berm.Capability("crabtalk.skills.list", lambda _call, _request: rows),
        berm.Capability("crabtalk.skills.get", get),
    ]
    harness = berm.Harness.load(engine, image("recurring"), capabilities)
    assert harness.call("skills", '{"name": "pdf"}').text == "pdf: forms;x: ;# how"
    assert harness.call("skills", '{"name": "x"}').message == "no skill"


def test_sessions_are_searched(engine):
    window = [
        {"role": "tool", "index": 3, "snippet": "", "truncated": True, "tool_name": "read"},
        {"role": "user", "index": 4, "snippet": "wörd", "truncated": False, "tool_name": ""},
    ]
    hits = [
        {"session": "s1", "index": 4, "score": 1.25, "title": "T", "window": window},
        {"session": "s2", "index": 0, "score": 1, "title": "", "window": []},
    ]
    asked = []

    def search(_call, request):
        asked.append(unpack_fields(request))
        return json.dumps(hits).encode()

    capability = berm.Capability("crabtalk.sessions.search", search)
    harness = berm.Harness.load(engine, image("recurring"), [capability])
    text = harness.call("sessions", '{"query": "wörd*"}').text
    assert text == "s1 T 4 1.25: tool 3  1 read user 4 wörd 0 ;s2  0 1.00:;"
    assert asked == [["wörd*".encode(), b"3", b"1", b"0"]]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.binary(max_size=40))
@settings(max_examples=100, deadline=None)
def test_base64_goes_both_ways(engine, text, data):
    harness = berm.Harness.load(engine, image("recurring"))
    code = base64.b64encode(data).decode()
    outcome = harness.call("base64", json.dumps({"text": text, "code": code}))
    shown = "".join(f" {byte:02x}" for byte in data)
    assert outcome.text == base64.b64encode(text.encode()).decode() + shown


@given(st.text("AZaz09+/=\n-_ é", max_size=12))
@settings(max_examples=200, deadline=None)
def test_base64_takes_only_what_an_encoder_writes(engine, code):
    harness = berm.Harness.load(engine, image("recurring"))
    text = harness.call("base64", json.dumps({"text": "", "code": code})).text
    try:
        data = base64.b64decode(code, validate=True)
        good = base64.b64encode(data).decode() == code
    except ValueError:
        good = False
    assert text == ("".join(f" {byte:02x}" for byte in data) if good else " none")


# ---- catching ----


def test_a_failure_that_is_caught_is_no_failure_of_the_call(wakes):
    text = wakes.harness.call("catches", '{"fail":false}').text
    assert text.split(";")[:3] == ["0 3", "1 3 is odd", "1 outer after 1 7 is odd (context)"]
    assert text.split(";")[3].startswith("1 out of memory: ")


def test_after_catching_a_failure_still_ends_the_call(wakes):
    assert wakes.harness.call("catches", '{"fail":true}').message == "not caught"


# ---- recurrences ----


def test_the_first_wake_is_the_first_occurrence_in_the_zone_of_the_clock(wakes):
    # 01:53:20 in Berlin, a Monday
    assert wakes.start("0 8 * * mon-fri") == START_MS + 6 * 3_600_000 + 400_000
    assert wakes.at == [START_MS + 6 * 3_600_000 + 400_000]
    assert wakes.asked[-1][1][2] == b"k"


def test_a_recurrence_goes_on_from_wake_to_wake(wakes):
    due = wakes.start("0 8 * * *", payload="p")
    for day in range(5):
        seen = wakes.run()
        assert seen["due"] == str(due + day * DAY_MS)
        assert seen["next"] == str(due + (day + 1) * DAY_MS)
        assert wakes.at == [due + (day + 1) * DAY_MS]


def test_the_next_wake_is_scheduled_before_the_body_runs(wakes):
    due = wakes.start("0 8 * * *", payload="trap")
    for day in range(1, 4):
        with pytest.raises(berm.Trap):
            wakes.fire()
        assert wakes.at == [due + day * DAY_MS]


def test_a_rule_s_changes_of_the_clocks_are_those_of_its_zone(wakes):
    wakes.now_ms = 1_774_600_000_000  # 2026-03-27
    due = wakes.start("30 2 * * *", gap=3)
    found = [due] + [int(wakes.run()["next"]) for _ in range(3)]
    assert [(b - a) // 3_600_000 for a, b in itertools.pairwise(found)] == [47, 24, 24]


def test_starting_again_replaces(wakes):
    wakes.start("@daily")
    second = wakes.start("@hourly")
    assert wakes.at == [second]
    assert wakes.harness.call("stop", '{"key":"k"}').text == "1"
    assert wakes.harness.call("stop", '{"key":"k"}').text == "0"
    assert wakes.at == []


def test_stopping_leaves_other_recurrences_alone(wakes):
    wakes.start("@daily")
    wakes.start("@hourly", key="other")
    wakes.harness.call("stop", '{"key":"k"}')
    assert [key for _, _, key in wakes.pending.values()] == [b"other"]


def test_a_body_stops_its_own_recurrence(wakes):
    for payload in ("stop", "stop, fail"):
        wakes.start("@hourly", payload=payload, retry_s=60)
        wakes.fire()
        assert wakes.at == []


def test_a_body_that_starts_anew_is_not_overruled(wakes):
    wakes.start("@daily", payload="restart", retry_s=60)
    outcome = wakes.fire()
    assert outcome.message == "restarted"
    assert wakes.at == [wakes.now_ms + 3_600_000]
    assert wakes.run()["failures"] == "0"


@pytest.mark.parametrize(
    ("late", "due_days", "runs"), [(0, [0, 4], [1, 1]), (1, [0, 1, 2, 3, 4], [1] * 5), (2, [4], [0, 1])]
)
def test_missed_occurrences_run_once_each_or_not_at_all(wakes, late, due_days, runs):
    """The machine was off for three and a half days."""
    first = wakes.start("0 8 * * *", late=late)
    outcomes = [wakes.fire(late_ms=7 * DAY_MS // 2)]
    while wakes.at[0] <= first + 4 * DAY_MS:
        outcomes.append(wakes.fire())
    done = [outcome.text for outcome in outcomes]
    assert [int("due=" in text) for text in done] == runs
    shown = [text for text in done if "due=" in text]
    assert [f"due={first + day * DAY_MS}" in text for day, text in zip(due_days, shown, strict=True)] == [
        True
    ] * len(due_days)
    assert wakes.at == [first + 5 * DAY_MS]


def test_a_skipped_occurrence_says_so(wakes):
    wakes.start("@daily", late=2, grace_s=10)
    assert wakes.fire(late_ms=10_000).text.startswith("k due=")
    assert wakes.fire(late_ms=11_000).text == "skipped: 11 s late\n"


def test_a_clock_set_back_does_not_repeat_an_occurrence(wakes):
    due = wakes.start("0 8 * * *")
    wakes.fire()
    (name, (at_ms, payload, key)) = next(iter(wakes.pending.items()))
    argument = {
        "id": name,
        "key": key.decode(),
        "payload_base64": base64.b64encode(payload).decode(),
        "scheduled_at_ms": at_ms,
        "now_ms": due - 3 * DAY_MS,
        "attempt": 1,
        "reason": "due",
    }
    wakes.harness.wake(json.dumps(argument))
    assert wakes.at == [at_ms + DAY_MS]


def test_distances_stay_on_their_grid(wakes):
    first = wakes.start("@every 10m")
    assert first == START_MS + 600_000
    assert wakes.run(late_ms=3000)["next"] == str(first + 600_000)
    assert wakes.run(late_ms=650_000)["next"] == str(first + 3 * 600_000)


def test_failures_back_off_and_a_success_goes_back_to_the_rule(wakes):
    first = wakes.start("@every 5m", payload="fail", retry_s=60, retry_most_s=500)
    for failures, delay_s in enumerate((60, 120, 240, 480, 500, 500)):
        outcome = wakes.fire()
        assert outcome.message == "fail"
        assert wakes.at == [wakes.now_ms + delay_s * 1000]
        (_, payload, _) = next(iter(wakes.pending.values()))
        assert json.loads(payload)["failures"] == failures + 1
        assert json.loads(payload)["due_ms"] == first
    # The same wake with a payload that does not fail.
    ((name, (at_ms, payload, key)),) = wakes.pending.items()
    wakes.pending[name] = (at_ms, json.dumps({**json.loads(payload), "payload": "fine"}).encode(), key)
    assert wakes.run()["failures"] == "6"
    on_grid = first + ((wakes.now_ms - first) // 300_000 + 1) * 300_000
    assert wakes.at == [on_grid]
    assert wakes.run()["failures"] == "0"


def test_without_a_retry_a_failure_changes_nothing(wakes):
    due = wakes.start("0 8 * * *", payload="fail")
    wakes.fire()
    wakes.fire()
    assert wakes.at == [due + 2 * DAY_MS]
    assert json.loads(next(iter(wakes.pending.values()))[1])["failures"] == 0


def test_a_late_retry_is_not_skipped(wakes):
    wakes.start("@daily", late=2, payload="fail", retry_s=600)
    wakes.fire()
    assert wakes.fire(late_ms=DAY_MS).message == "fail"


def test_a_wake_that_is_refused_as_too_soon_comes_a_little_later(wakes):
    """A spent chain refuses what is due within a minute; the recurrence goes on nevertheless."""
    first = wakes.start("@every 1m")
    refuse_before = first + 61_000
    accept = wakes.schedule

    def schedule(at_ms, payload, key):
        if int(at_ms) < refuse_before:
            raise ValueError("chain is spent")
        return accept(at_ms, payload, key)

    wakes.schedule = schedule
    assert wakes.run()["due"] == str(first)
    assert wakes.at == [first + 120_000]
    assert wakes.run()["due"] == str(first + 60_000)
    assert wakes.at == [first + 180_000]


def test_a_wake_that_is_refused_for_good_fails_the_call_before_the_body(wakes):
    wakes.start("@daily", payload="fail")

    def schedule(*_fields):
        raise ValueError("the store is away")

    wakes.schedule = schedule
    assert wakes.fire().message == "the store is away"


def test_a_run_costs_one_scheduling(wakes):
    wakes.start("@every 5m")
    wakes.asked.clear()
    wakes.fire()
    assert [name for name, _ in wakes.asked] == ["crabtalk.wake.schedule"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "often"}, "the rule `often` is wrong: expected a minute from 0 to 59 - at byte 0"),
        ({"rule": "@daily", "key": ""}, "a recurrence needs a key"),
        ({"rule": "@daily", "grace_s": -1}, "expected `grace_s` of 0 seconds to 366 days, got -1"),
        (
            {"rule": "@daily", "retry_s": 59},
            "expected `retry_s` and `retry_most_s` of 0, or 60 seconds to 366 days, got 59 and 0",
        ),
        (
            {"rule": "@every 59s"},
            "the rule `@every 59s` is wrong: a recurrence comes once a minute at most",
        ),
        ({"rule": "@daily", "zone": "Mars/North"}, None),
        ({"rule": "@daily", "payload": "x" * 66_000}, "the payload of a recurrence is too long: 66000 bytes"),
    ],
)
def test_a_recurrence_that_cannot_be_is_refused_and_nothing_scheduled(wakes, options, message):
    outcome = wakes.harness.call("start", json.dumps({"key": "k", **options}))
    assert isinstance(outcome, berm.Failed)
    assert message is None or outcome.message == message
    assert wakes.at == []


def test_a_wake_of_something_else_is_left_to_the_caller(wakes):
    for payload in (b"", b"{}", b"[1]", b'{"recurring":1}', b'{"recurring":"@daily","due_ms":-1}', b"\xff"):
        wakes.pending["x"] = (START_MS, payload, b"k")
        assert wakes.fire().text.startswith("x|k|")
        assert wakes.at == []


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=10)),
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["zone", "gap", "overlap", "late", "grace_s", "retry_s", "retry_most_s", "due_ms", "failures"]
            ),
            inner,
        ),
        max_leaves=9,
    ).filter(lambda value: isinstance(value, dict))
)
@settings(max_examples=150, deadline=None)
def test_a_payload_that_somebody_made_up_cannot_break_the_guest(engine, state):
    """Done or failed, within the fuel of a call; a trap would be a bug."""
    wakes = Wakes(engine)
    payload = json.dumps({**state, "recurring": "@every 1s", "payload": "fail"}).encode()
    wakes.pending["x"] = (START_MS, payload, b"k")
    assert isinstance(wakes.fire(), (berm.Done, berm.Failed))

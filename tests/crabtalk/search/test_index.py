"""The index: what goes in is found, what goes out is not, and a file that is no index becomes one."""

import sqlite3
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabtalk.errors import BadRequest, StoreError
from crabtalk.search.index import RANKED, BrokenIndex, Entry, SearchIndex
from crabtalk.search.words import parse_query, words
from crabtalk.store.interfaces.sessions import SessionRecord


@pytest.fixture
def index(tmp_path):
    opened = SearchIndex(tmp_path / "search.db")
    yield opened
    opened.close()


def session(handle="s", agent="A", sender="me"):
    return SessionRecord(handle, agent, sender, None, "", 1, 1)


def said(index, text, *, role="user"):
    folded = " ".join(words(text))
    return Entry(index, **({"user": "", "assistant": "", "tool": ""} | {role: folded}))


def fill(index, *texts, record=None, role="user"):
    entries = [said(number, text, role=role) for number, text in enumerate(texts)]
    index.add(record or session(), entries, len(entries), b"x")


def found(index, query, limit=20, **filters):
    return [(one.handle, one.index) for one in index.search(parse_query(query), limit, **filters)]


def test_words_phrases_and_beginnings_are_found(index):
    fill(index, "the old harbour", "an old ship leaves the harbour", "harvest")
    assert sorted(found(index, "harbour")) == [("s", 0), ("s", 1)]
    assert found(index, '"old harbour"') == [("s", 0)]
    assert sorted(found(index, "har*")) == [("s", 0), ("s", 1), ("s", 2)]
    assert found(index, "nothing") == []


def test_messages_with_all_words_come_before_those_with_some(index):
    fill(index, "ship ship ship", "harbour harbour", "a ship in a long sentence about some harbour")
    assert found(index, "ship harbour")[0] == ("s", 2)
    assert sorted(found(index, "ship harbour")) == [("s", 0), ("s", 1), ("s", 2)]
    assert found(index, "ship harbour", limit=1) == [("s", 2)]


def test_what_people_said_weighs_more_than_answers_and_those_more_than_tools(index):
    for role in ("tool", "assistant", "user"):
        fill(index, "lighthouse", record=session(role), role=role)
    assert [handle for handle, _ in found(index, "lighthouse")] == ["user", "assistant", "tool"]


def test_agents_and_senders_are_filters(index):
    fill(index, "ship", record=session("1", "A", "ann"))
    fill(index, "ship", record=session("2", "A", "bob"))
    fill(index, "ship", record=session("3", "B", "ann"))
    assert sorted(found(index, "ship", agent_id="A")) == [("1", 0), ("2", 0)]
    assert sorted(found(index, "ship", sender="ann")) == [("1", 0), ("3", 0)]
    assert found(index, "ship", agent_id="B", sender="ann") == [("3", 0)]
    assert found(index, "ship", agent_id="C") == []


def test_a_common_word_does_not_hide_a_rare_one(index):
    fill(index, "narwhal")
    fill(index, *["common"] * (RANKED + 10), record=session("many"))
    assert found(index, "common narwhal absent") == [("s", 0)]
    assert len(found(index, "common")) == 20


def test_a_session_goes_with_all_its_messages_and_no_other(index):
    fill(index, "ship", record=session("1"))
    fill(index, "ship", record=session("2"))
    index.forget("1")
    index.forget("never there")
    assert found(index, "ship") == [("2", 0)]
    assert (index.known("1"), set(index.all_known())) == (None, {"2"})


def test_a_session_grows(index):
    fill(index, "one")
    index.add(session(), [said(1, "two")], 2, b"y")
    known = index.known("s")
    assert (known.count, known.last, known.agent_id, known.sender) == (2, b"y", "A", "me")
    assert (found(index, "one"), found(index, "two")) == ([("s", 0)], [("s", 1)])


def test_a_batch_goes_in_whole_or_not_at_all(index):
    fill(index, "one")
    with pytest.raises(BrokenIndex):
        index.add(session(), [said(1, "two"), said(0, "again")], 3, b"y")
    assert index.known("s").count == 1
    assert found(index, "two") == []


def test_it_is_still_there_after_it_was_closed(index, tmp_path):
    fill(index, "ship")
    index.close()
    again = SearchIndex(tmp_path / "search.db")
    assert found(again, "ship") == [("s", 0)]
    again.close()


def test_the_file_is_for_its_owner_alone(index):
    assert stat.S_IMODE(index.path.stat().st_mode) == 0o600


def test_clearing_makes_a_new_file(index):
    fill(index, "ship")
    index.clear()
    assert (index.all_known(), found(index, "ship")) == ({}, [])
    fill(index, "ship again")
    assert found(index, "ship") == [("s", 0)]


def other_program(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE message (a)")
    db.close()


def other_format(path):
    SearchIndex(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"no database at all, and long enough to be looked at" * 100),
        lambda path: path.write_bytes(b""),
        other_program,
        other_format,
    ],
)
def test_a_file_that_is_no_index_is_made_one(tmp_path, spoil, caplog):
    path = tmp_path / "search.db"
    spoil(path)
    empty = path.stat().st_size == 0  # as good as none
    index = SearchIndex(path)
    said = [f"search index `{path}` is made anew: " in message for message in caplog.messages]
    assert said == ([] if empty else [True])
    fill(index, "ship")
    assert found(index, "ship") == [("s", 0)]
    index.close()


def test_a_place_that_cannot_be_used_is_said(tmp_path):
    (tmp_path / "search.db").mkdir()
    with pytest.raises(StoreError, match=r"search index `.*search.db`: "):
        SearchIndex(tmp_path / "search.db")


@settings(max_examples=200, deadline=None)
@given(query=st.text(max_size=60))
def test_no_query_is_an_error_of_the_index(shared_index, query):
    try:
        terms = parse_query(query)
    except BadRequest:
        return
    shared_index.search(terms, 5)


@settings(max_examples=200, deadline=None)
@given(text=st.text(min_size=1, max_size=60))
def test_every_word_that_went_in_is_found(shared_index, text):
    shared_index.forget("h")
    fill(shared_index, text, record=session("h"))
    for word in words(text):
        if word.isascii():
            assert ("h", 0) in found(shared_index, word)


@pytest.fixture(scope="module")
def shared_index(tmp_path_factory):
    opened = SearchIndex(tmp_path_factory.mktemp("index") / "search.db")
    yield opened
    opened.close()

"""Which memories answer a question best."""

from hypothesis import given
from hypothesis import strategies as st

from crabtalk.memory.ranking import ALIAS, CONTENT, NAME, Ranking

WORDS = st.lists(st.sampled_from(["ship", "harbour", "night", "storm", "sail"]), max_size=6)


def keys(ranking, *words):
    return [key for key, _ in ranking.rank(words)]


def filled(**documents):
    ranking = Ranking()
    for key, text in documents.items():
        ranking.put(key, [(CONTENT, text.split())])
    return ranking


def test_only_what_has_one_of_the_words_is_ranked():
    ranking = filled(a="ship harbour", b="night")
    assert keys(ranking, "ship") == ["a"]
    assert keys(ranking, "absent") == []
    assert keys(Ranking(), "ship") == []


def test_a_word_in_the_name_weighs_most_then_one_in_an_alias():
    ranking = Ranking()
    for key, weight in (("content", CONTENT), ("alias", ALIAS), ("name", NAME)):
        ranking.put(key, [(weight, ["ship"]), (CONTENT, ["and", "more"])])
    assert keys(ranking, "ship") == ["name", "alias", "content"]


def test_a_rare_word_says_more_than_a_common_one():
    ranking = filled(a="ship narwhal", b="ship ship", c="ship ship", d="ship ship")
    assert keys(ranking, "ship", "narwhal")[0] == "a"


def test_a_short_text_about_it_says_more_than_a_long_one_that_mentions_it():
    ranking = filled(long="ship " + "x " * 200, short="ship now")
    assert keys(ranking, "ship") == ["short", "long"]


def test_of_equals_whichever_came_last_is_first():
    assert keys(filled(a="ship", b="ship", c="ship"), "ship") == ["c", "b", "a"]


def test_weight_of_a_document():
    ranking = Ranking()
    ranking.put("archive", [(CONTENT, ["ship"])], 0.5)
    ranking.put("note", [(CONTENT, ["ship"])])
    assert keys(ranking, "ship") == ["note", "archive"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), WORDS | st.none()), max_size=30))
def test_after_any_changes_it_is_as_if_only_the_last_ones_had_been_made(changes):
    ranking, last = Ranking(), {}
    for key, words in changes:
        last.pop(key, None)
        if words is None:
            ranking.remove(key)
        else:
            last[key] = words
            ranking.put(key, [(CONTENT, words)])
    fresh = Ranking()
    for key, words in last.items():
        fresh.put(key, [(CONTENT, words)])
    asked = ["ship", "storm"]
    assert ranking.rank(asked) == fresh.rank(asked)
    assert len(ranking) == len(last)
    assert set(keys(ranking, *asked)) == {key for key, words in last.items() if set(asked) & set(words)}

"""Fuzzy search: the ranking, forgiven mistakes, the marked letters, and the names that were probably meant."""

from __future__ import annotations

import pytest

from gpututor.course.loader import load_course
from gpututor.course.model import Exercise
from gpututor.errors import UsageError
from gpututor.fuzzy import did_you_mean, likely_meant, marks, ranked
from gpututor.paths import builtin_course

NAMES = ("2.1 The buffer that stayed", "12.1 Pinned memory", "5.2 Copies in a buffer pool", "9.1 Train a model")


def best(query: str) -> list[str]:
    return [name for name, _ in ranked(query, NAMES, lambda name: (name,))]


def marked(query: str, text: str) -> list[str]:
    return [text[start:end] for start, end in marks(query, text)]


@pytest.mark.parametrize(
    ("query", "name", "letters"),
    [
        ("bufer", NAMES[0], ["buf", "er"]),
        ("trmod", NAMES[3], ["Tr", "mod"]),
        ("memroy", NAMES[1], ["memory"]),
        ("pimned", NAMES[1], ["Pinned"]),
        ("memmory", NAMES[1], ["memory"]),
        ("poul", NAMES[2], ["pool"]),
        ("teh", NAMES[0], ["The"]),
        ("MEMORY pin", NAMES[1], ["Pin", "memory"]),
    ],
)
def test_missing_wrong_and_swapped_letters_are_forgiven_and_what_fits_is_marked(
    query: str, name: str, letters: list[str]
) -> None:
    assert best(query)[0] == name
    assert marked(query, name) == letters


def test_starts_come_first_and_each_word_must_fit_somewhere() -> None:
    assert best("2.") == [NAMES[0]], "a number fits where a number starts"
    assert best("12.1") == [NAMES[1]]
    assert marked("2.", "2.1 and 12.2 in float32.") == ["2."]
    texts = ("smart", "an art", "art of", "art")
    assert [text for text, _ in ranked("art", texts, lambda text: (text,))] == ["art", "art of", "an art", "smart"]
    items = {"late": ("Streams", "how to copy"), "early": ("Copy", "streams")}
    assert [name for name, _ in ranked("copy", items, items.__getitem__)] == ["early", "late"]
    assert [name for name, _ in ranked("copy how", items, items.__getitem__)] == ["late"]
    assert ranked("copy how why", items, items.__getitem__) == []
    assert [text for text, _ in ranked("cop", ("computes on paper", "copy"), lambda text: (text,))] == ["copy"]
    assert len(ranked("cop", ("computes on paper",), lambda text: (text,))) == 1
    assert best("  ") == list(NAMES)
    assert marks("istanbul", "İstanbul") == ()


@pytest.mark.parametrize("query", ["xyzzy[/]", "*** (", "\\", "4.4", "7"])
def test_nothing_fits_what_is_not_there(query: str) -> None:
    assert best(query) == []


def test_a_wrong_name_suggests_the_names_that_were_probably_meant() -> None:
    assert did_you_mean("grde", ("grade", "list")) == "Did you mean 'grade'? "
    for word in ("qqq", "grip"):
        assert did_you_mean(word, ("grade", "list")) == ""
    known = ("grade", "trade", "upgrade")
    assert likely_meant("grade", known, lambda name: (name,), most=2) == ["grade", "upgrade"]


@pytest.mark.parametrize(
    ("words", "slug"),
    [("bufer", "the_buffer_that_stayed"), ("pined", "pinned_memory"), ("2.33", "same_device"), ("23", "same_device")],
)
def test_a_wrong_exercise_is_refused_with_the_probable_names(words: str, slug: str) -> None:
    course = load_course(builtin_course())
    with pytest.raises(UsageError) as caught:
        course.find(words)
    assert caught.value.advice.startswith(f"Did you mean {course.find(slug).label} {slug}? ")
    exercise: Exercise = course.find(slug)
    assert exercise.slug == slug

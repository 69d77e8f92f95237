"""Finds words in the course: names of exercises, headings, and the texts of lessons and tasks. No Textual."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpututor.app.links import headings
from gpututor.course.exercise import Course, Exercise, Lesson
from gpututor.errors import CourseError

MOST_FOUND = 60
"""How many passages a search shows; more are counted."""
_NAME, _HEADING, _TEXT = 40, 20, 0
_WHOLE_WORD, _WORD_START = 4, 2
_SIDE_BY_SIDE = 10


@dataclass(frozen=True)
class Passage:
    """A name, a heading or a paragraph."""

    page: Lesson | Exercise
    heading: str
    """The heading that it stands under; empty where that is the page's name."""
    line: int
    """Where it begins in the page's text, from 0."""
    text: str
    """What to show of it."""
    weight: int
    lowered: str
    """What is looked through."""

    @property
    def where(self) -> str:
        """The place in words: `Lesson 5  Keep the data moving › Streams`."""
        page = self.page
        name = f"Lesson {page.number}" if isinstance(page, Lesson) else f"Task {page.label}"
        heading = f" › {self.heading}" if self.heading else ""
        return f"{name}  {page.title}{heading}"


@dataclass(frozen=True)
class Found:
    """What a search found, best first."""

    passages: tuple[Passage, ...]
    total: int
    """How many there are, those that are not shown too."""


class TextIndex:
    """Every passage of a course's texts. Building it reads them all, which belongs in a thread."""

    def __init__(self, course: Course) -> None:
        self._passages: list[Passage] = []
        for lesson in course.lessons:
            self._passages += _passages(lesson)
            for exercise in lesson.exercises:
                self._passages += _passages(exercise)

    def find(self, query: str) -> Found:
        """The passages with all the words of `query`, in any order and case, best first."""
        words = query.casefold().split()
        if not words:
            return Found((), 0)
        together = " ".join(words)
        scored = [
            (-_score(passage, words, together), order, passage)
            for order, passage in enumerate(self._passages)
            if all(word in passage.lowered for word in words)
        ]
        scored.sort(key=lambda each: each[:2])
        # A heading is shown with the paragraph below it, which may have the words too.
        places: dict[tuple[str, str], Passage] = {}
        for _, _, passage in scored:
            places.setdefault((passage.where, passage.text), passage)
        return Found(tuple(places.values())[:MOST_FOUND], len(places))


def _score(passage: Passage, words: list[str], together: str) -> int:
    score = passage.weight
    if len(words) > 1 and together in passage.lowered:
        score += _SIDE_BY_SIDE
    for word in words:
        if re.search(rf"\b{re.escape(word)}\b", passage.lowered):
            score += _WHOLE_WORD
        elif re.search(rf"\b{re.escape(word)}", passage.lowered):
            score += _WORD_START
    return score


def _passages(page: Lesson | Exercise) -> Iterator[Passage]:
    label = str(page.number) if isinstance(page, Lesson) else page.label
    yield _passage(page, "", 0, page.summary, _NAME, f"{label} {page.title} {page.summary}")
    try:
        text = page.text if isinstance(page, Lesson) else page.task
    except CourseError:
        return  # opening the page says what is wrong with it
    names = dict(headings(text))
    heading = ""
    block: list[str] = []
    start = 0
    lines = text.split("\n")
    for number, line in enumerate([*lines, ""]):
        if number in names:
            first = not heading and names[number] == page.title
            heading = "" if first else names[number]
            if heading:
                below = itertools.takewhile(str.strip, itertools.dropwhile(_is_blank, lines[number + 1 :]))
                yield _passage(page, heading, number, " ".join(below), _HEADING, heading)
        elif line.strip() and not line.lstrip().startswith(("```", "~~~")):
            if line.lstrip().startswith(("- ", "* ")) and block:
                yield _passage(page, heading, start, " ".join(block), _TEXT)
                block = []
            start = start if block else number
            block.append(line.strip())
        elif block:
            yield _passage(page, heading, start, " ".join(block), _TEXT)
            block = []


def _is_blank(line: str) -> bool:
    return not line.strip()


def _passage(page: Lesson | Exercise, heading: str, line: int, text: str, weight: int, searched: str = "") -> Passage:
    """`searched` is what is looked through, where that is something else than what is shown."""
    plain = " ".join(re.sub(r"[`*]+|^[-*] ", "", text).split())
    return Passage(page, heading, line, plain, weight, searched.casefold() or plain.casefold())


def excerpt(text: str, query: str, width: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """At most `width` characters of `text` around the first word of `query`, and which of them are the words.

    What is left out is marked with `…`. Both as (start, end) from the excerpt's beginning.
    """
    words = query.casefold().split()
    lowered = text.casefold()
    places = [place for word in words if (place := lowered.find(word)) >= 0]
    first = min(places, default=0)
    start = 0
    if len(text) > width and first > width // 3:
        start = min(first - width // 3, len(text) - width)
        start = text.find(" ", start, first) + 1 or start
    shown = text[start:]
    if start:
        shown = "…" + shown
    if len(shown) > width:
        shown = shown[: width - 1].rstrip() + "…"
    lowered = shown.casefold()
    if len(lowered) != len(shown):
        return shown, ()  # some letters grow when they are folded, and positions move
    marks = [match.span() for word in words for match in re.finditer(re.escape(word), lowered)]
    return shown, tuple(sorted(set(marks)))

"""The index of course texts: search and links."""

from __future__ import annotations

import itertools
import os.path
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpututor.course.model import Course, Exercise, Lesson
from gpututor.errors import CourseError

_PROSE_LINK = re.compile(
    r"""(?P<kept> (?P<ticks>`+).+?(?P=ticks)(?!`) | !?\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\]) | <[^>\s]+> )
      | \b[Ll]esson\s+(?P<lesson>\d{1,2})\b(?!\.\d)
      | \b[Ee]xercise\s+(?P<exercise>\d{1,2}\.\d{1,2})\b""",
    re.VERBOSE | re.DOTALL,
)
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING_LINE = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")


@dataclass(frozen=True)
class Destination:
    """Where a link leads. One of `lesson` and `exercise` is set."""

    lesson: Lesson | None = None
    exercise: Exercise | None = None
    anchor: str = ""
    """The heading to scroll to, as in a link; empty: the top."""


def is_web(target: str) -> bool:
    return target.startswith(("https://", "http://"))


def destination(course: Course, target: str, here: Lesson | Exercise) -> Destination | None:
    """Where a link in the text of `here` leads; None when nothing is there.

    A target is a path as on GitHub (`../05_keep_the_data_moving/lesson.md#streams`), a number (`5`, `2.3`), a name or
    only a heading (`#streams`).
    """
    name, _, anchor = target.partition("#")
    if not name:
        return _to(here, anchor)
    path = os.path.normpath(here.folder / name)
    if os.path.basename(path) in ("lesson.md", "task.md"):
        path = os.path.dirname(path)
    words = Path(name.removesuffix("/lesson.md").removesuffix("/task.md").rstrip("/")).name
    for lesson in course.lessons:
        if path == os.path.normpath(lesson.folder) or words in (str(lesson.number), lesson.slug, lesson.folder.name):
            return _to(lesson, anchor)
    for exercise in course.exercises:
        if path == os.path.normpath(exercise.folder):
            return _to(exercise, anchor)
    for exercise in course.exercises:
        if name.rstrip("/") in (exercise.label, exercise.slug, exercise.key):
            return _to(exercise, anchor)
    return None


def _to(page: Lesson | Exercise, anchor: str) -> Destination:
    return Destination(lesson=page, anchor=anchor) if isinstance(page, Lesson) else Destination(None, page, anchor)


def with_links(course: Course, text: str, *, lesson: Lesson | None = None, exercise: Exercise | None = None) -> str:
    """The text of a lesson or a task with what it names made links: "lesson 5", "exercise 2.3".

    At a lesson's end stand its exercises, at a task's end its lesson. The lines before keep their numbers.
    """
    known = {str(each.number) for each in course.lessons} - {str(lesson.number) if lesson else ""}
    labels = {each.label for each in course.exercises} - {exercise.label if exercise else ""}
    linked = "\n".join(
        part if is_code else _PROSE_LINK.sub(lambda found: _linked(found, known, labels), part)
        for is_code, part in _parts(text)
    )
    if lesson is not None and lesson.exercises:
        lines = [
            f"- [{each.label} {_plain(each.title)}]({each.label}): {_plain(each.summary)}" for each in lesson.exercises
        ]
        return f"{linked.rstrip()}\n\n## Exercises\n\n" + "\n".join(lines) + "\n"
    if exercise is not None:
        own = course.lesson_of(exercise)
        return f"{linked.rstrip()}\n\n*Lesson {own.number}:* [{_plain(own.title)}]({own.number})\n"
    return linked


def _linked(found: re.Match[str], lessons: set[str], labels: set[str]) -> str:
    number, label = found["lesson"], found["exercise"]
    if (number in lessons) or (label in labels):
        return f"[{found[0]}]({number or label})"
    return found[0]


def _plain(text: str) -> str:
    """The text as Markdown that means nothing but itself."""
    return re.sub(r"([\\`*_\[\]<>&~|])", r"\\\1", text)


def _parts(text: str) -> list[tuple[bool, str]]:
    """The lines in runs: (whether it is code or a heading, text)."""
    parts: list[tuple[bool, list[str]]] = []
    fenced = False
    for line in text.split("\n"):
        is_fence = bool(_FENCE.match(line))
        is_code = fenced or is_fence or line.startswith(("    ", "\t")) or bool(_HEADING_LINE.match(line))
        fenced ^= is_fence
        if not parts or parts[-1][0] is not is_code:
            parts.append((is_code, []))
        parts[-1][1].append(line)
    return [(is_code, "\n".join(lines)) for is_code, lines in parts]


def headings(text: str) -> list[tuple[int, str]]:
    """(line from 0, words) of each heading."""
    found: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(text.split("\n")):
        fenced ^= bool(_FENCE.match(line))
        if not fenced and (heading := _HEADING_LINE.match(line)):
            found.append((number, re.sub(r"[`*]", "", heading[2])))
    return found


def slug(heading: str) -> str:
    """How a link names a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def line_of(text: str, anchor: str) -> int | None:
    """The line, from 0, of the heading that an anchor names; the n-th of the same words ends in `-n`."""
    seen: dict[str, int] = {}
    for line, words in headings(text):
        name = slug(words)
        count = seen.get(name, 0)
        seen[name] = count + 1
        if anchor == (f"{name}-{count}" if count else name):
            return line
    return None


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

"""Links of the course's texts: what is written as one, what is meant as one, and where each leads."""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass
from pathlib import Path

from gpututor.course.exercise import Course, Exercise, Lesson

_PROSE_LINK = re.compile(
    r"""(?P<kept> (?P<ticks>`+).+?(?P=ticks)(?!`) | !?\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\]) | <[^>\s]+> )
      | \b[Ll]esson\s+(?P<lesson>\d{1,2})\b(?!\.\d)
      | \b[Ee]xercise\s+(?P<exercise>\d{1,2}\.\d{1,2})\b""",
    re.VERBOSE | re.DOTALL,
)
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")


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
        is_code = fenced or is_fence or line.startswith(("    ", "\t")) or bool(_HEADING.match(line))
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
        if not fenced and (heading := _HEADING.match(line)):
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

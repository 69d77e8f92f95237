"""The index of course texts: search and links."""

from __future__ import annotations

import itertools
import os.path
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpututor.course.model import Course, Exercise, Lesson
from gpututor.errors import CourseError
from gpututor.fuzzy import marks, ranked

_PROSE_LINK = r"""
    (?P<skip> (?P<ticks>`+).+?(?P=ticks)(?!`) | !?\[[^\]]*\](?:\([^)\n]*\)|\[[^\]\n]*\]) | <[^>\s]+> )
    | \b[Ll]esson\s+(?P<lesson>\d{1,2})\b(?!\.\d)
    | \b[Ee]xercise\s+(?P<exercise>\d{1,2}\.\d{1,2})\b"""
_NAMED = re.compile(r"(?:\bIn \w+'s documentation:|\[glossary\]\(\S*?glossary\.md\)).*?(?=\n\s*\n|\Z)", re.DOTALL)
"""Names of pages for further reading, and words after a link to the glossary, each to the paragraph's end."""
_TORCH_NAME = r"torch(?:\.\w+)+"
_SHORT = {"nn": "torch.nn", "F": "torch.nn.functional", "DataLoader": "torch.utils.data.DataLoader"}
"""Names as programs import them, and where they are."""
_CODE_OF_TORCH = re.compile(rf"`(?P<name>{_TORCH_NAME}|(?:nn|F)(?:\.\w+)+|DataLoader)(?:\([^`]*\))?`")
_WITHOUT_PAGE = re.compile(
    r"torch\.(?:version\..*|backends\..*precision|channels_last|(?:u?int|b?float|complex)\d+(?:\.\w+)?)"
)
"""Names of values, which have no documentation of their own."""
NAME = "name:"
"""Start of a link to the documentation of a name, such as `name:torch.where`."""
_READING = re.compile(r"^- \[([^\]]+)\]\((\S+)\)$", re.MULTILINE)
_GLOSSARY_WORD = re.compile(r"^\*\*([^*]+)\*\*:", re.MULTILINE)
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING_LINE = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")


@dataclass(frozen=True)
class Destination:
    """Target of a link."""

    page: Lesson | Exercise
    anchor: str = ""
    """Heading to scroll to, as in a link; empty for the top."""


def is_web(target: str) -> bool:
    return target.startswith(("https://", "http://"))


def destination(course: Course, target: str, here: Lesson | Exercise) -> Destination | None:
    """Return the destination of a link in the text of `here`; None if there is none.

    A target is a path as on GitHub (`../05_keep_the_data_moving/lesson.md#streams`), a number (`5`, `2.3`), a name or
    only a heading (`#streams`).
    """
    name, _, anchor = target.partition("#")
    if not name:
        return Destination(here, anchor)
    path = os.path.normpath(here.folder / name)
    if os.path.basename(path) in ("lesson.md", "task.md"):
        path = os.path.dirname(path)
    words = Path(name.removesuffix("/lesson.md").removesuffix("/task.md").rstrip("/")).name
    for lesson in course.lessons:
        if path == os.path.normpath(lesson.folder) or words in (str(lesson.number), lesson.slug, lesson.folder.name):
            return Destination(lesson, anchor)
    by_path = (exercise for exercise in course.exercises if path == os.path.normpath(exercise.folder))
    by_name = (
        exercise for exercise in course.exercises if name.rstrip("/") in (exercise.label, exercise.slug, exercise.key)
    )
    exercise = next(itertools.chain(by_path, by_name), None)
    return Destination(exercise, anchor) if exercise is not None else None


def with_links(course: Course, text: str, page: Lesson | Exercise) -> str:
    """Return the text of `page` with links at "lesson 5", "exercise 2.3" and the first use of each PyTorch name.

    In a lesson, the first use of each word of the glossary is a link, too, but for the words that it lists as its own.
    Links to a lesson's exercises, or facts about a task, are added at the end. Lines keep their numbers.
    """
    own = str(page.number) if isinstance(page, Lesson) else page.label
    labels = (exercise.label for exercise in course.exercises)
    names = {*(str(lesson.number) for lesson in course.lessons), *labels} - {own}

    seen: set[str] = set()
    glossary = glossary_words(course.glossary) if isinstance(page, Lesson) else []
    words: dict[str, str] = {}

    def link(match: re.Match[str]) -> str:
        if match["ticks"]:
            return _with_documentation_link(match[0], seen)
        if match["word"]:
            return _with_glossary_link(match, words)
        name = match["lesson"] or match["exercise"]
        return f"[{match[0]}]({name})" if name in names else match[0]

    def linked_names(match: re.Match[str]) -> str:
        if match[0].startswith("["):
            return _with_glossary_links(course, match[0])
        return _with_reading_links(course, match[0])

    parts = [(is_code, part if is_code else _NAMED.sub(linked_names, part)) for is_code, part in _parts(text)]
    if isinstance(page, Lesson):
        own_words = {word for _, part in parts for word in re.findall(r"glossary\.md#(\S+?)\)", part)}
        words = {slug(word): word for word in glossary if slug(word) not in own_words}
    prose_link = re.compile(rf"{_PROSE_LINK} | {_pattern_of_words(glossary)}", re.VERBOSE | re.DOTALL)
    linked = "\n".join(part if is_code else prose_link.sub(link, part) for is_code, part in parts)
    if isinstance(page, Exercise):
        return f"{linked.rstrip()}\n\n{_about(course, page)}\n"
    if not page.exercises:
        return linked
    lines = (
        f"- [{exercise.label} {_plain(exercise.title)}]({exercise.label}): {_plain(exercise.summary)}\n"
        for exercise in page.exercises
    )
    return f"{linked.rstrip()}\n\n## Exercises\n\n{''.join(lines)}"


def glossary_words(glossary: str) -> list[str]:
    return _GLOSSARY_WORD.findall(glossary)


def _pattern_of_words(words: list[str]) -> str:
    """Return a pattern for the words in any case, and their plurals; the group `word` is without the plural's end."""
    alternatives = "|".join(_spaced(word) for word in sorted(words, key=len, reverse=True))
    return rf"(?<![\w-])(?P<word>(?i:{alternatives or '(?!)'}))(?:e?s)?(?![\w-])"


def _with_glossary_link(match: re.Match[str], words: dict[str, str]) -> str:
    """Link a word to its meaning, and remove it from `words`, which are by slug. `ZeRO` is not "zero"."""
    anchor = slug(match["word"])
    written = " ".join(match["word"].split())
    if words.get(anchor) not in (written, written[0].lower() + written[1:]):
        return match[0]
    del words[anchor]
    return f"[{match[0]}](../glossary.md#{anchor})"


def _with_glossary_links(course: Course, text: str) -> str:
    """Link the words after a link to the glossary to their meanings."""
    words = sorted(glossary_words(course.glossary), key=len, reverse=True)
    if not words:
        return text
    head, target, rest = re.split(r"\((\S+?)\)", text, maxsplit=1)
    pattern = "|".join(_spaced(word) for word in words)
    link = rf"(?<![\w-])(?:{pattern})(?![\w-])"
    return f"{head}({target})" + re.sub(link, lambda word: f"[{word[0]}]({target}#{slug(word[0])})", rest)


def _with_reading_links(course: Course, text: str) -> str:
    """Link the titles in a text to their pages on the web, and PyTorch's names to their documentation."""
    pages = {"".join(title.split()): url for title, url in _READING.findall(course.reading)}
    titles = "|".join(_spaced(title) for title, _ in _READING.findall(course.reading))
    quoted = re.compile(rf""""(?:{titles})"|`(?:{titles})`|`{_TORCH_NAME}`""" if titles else f"`{_TORCH_NAME}`")

    def link(match: re.Match[str]) -> str:
        title = "".join(match[0].strip('"`').replace("`", "").split())
        return f"[{match[0]}]({pages.get(title) or NAME + title})"

    return quoted.sub(link, text)


def _with_documentation_link(code: str, seen: set[str]) -> str:
    """Link code such as `torch.cat(…)` or `nn.Linear` to the documentation of its name, unless it is in `seen`."""
    match = _CODE_OF_TORCH.fullmatch(code)
    if match is None:
        return code
    first, dot, rest = match["name"].partition(".")
    name = f"{_SHORT.get(first, first)}{dot}{rest}"
    if name in seen or _WITHOUT_PAGE.fullmatch(name):
        return code
    seen.add(name)
    return f"[{code}]({NAME}{name})"


def _spaced(title: str) -> str:
    """Return a pattern for a title over several lines; words in it may be marked as code."""
    return r"\s+".join(f"`?{re.escape(word)}`?" for word in title.split())


def _about(course: Course, exercise: Exercise) -> str:
    """Describe an exercise in a line of Markdown: time, difficulty, lesson, prerequisites, learning paths."""
    lesson = course.lesson_of(exercise)
    parts = [
        f"{exercise.minutes} minutes, {exercise.difficulty}",
        f"*Lesson {lesson.number}:* [{_plain(lesson.title)}]({lesson.number})",
    ]
    if needed := course.prerequisites_of(exercise):
        links = (f"[{before.label} {_plain(before.title)}]({before.label})" for before in needed)
        parts.append(f"*After:* {', '.join(links)}")
    parts += [f"★ {_plain(path.title)}" for path in course.paths_of(exercise)]
    return " · ".join(parts)


def _plain(text: str) -> str:
    """Escape a text for Markdown."""
    return re.sub(r"([\\`*_\[\]<>&~|])", r"\\\1", text)


def _parts(text: str) -> list[tuple[bool, str]]:
    """Split a text into (True if it is code or a heading, lines)."""
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
    """Return (line from 0, words) of each heading."""
    result: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(text.split("\n")):
        fenced ^= bool(_FENCE.match(line))
        if not fenced and (heading := _HEADING_LINE.match(line)):
            result.append((number, re.sub(r"[`*]", "", heading[2])))
    return result


def slug(heading: str) -> str:
    """Return the name of a heading in links, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", " ".join(heading.split()).lower()).replace(" ", "-")


def line_of(text: str, anchor: str) -> int | None:
    """Return the line, from 0, of an anchor's heading. The anchor of the n-th repetition of a heading ends in `-n`."""
    seen = Counter[str]()
    for line, words in headings(text):
        name = slug(words)
        if anchor == (f"{name}-{seen[name]}" if seen[name] else name):
            return line
        seen[name] += 1
    return None


def sections(lesson: Lesson) -> list[tuple[int, str]]:
    """Return (line from 0, words) of each heading of a lesson but its title; nothing if it cannot be read."""
    try:
        return headings(lesson.text)[1:]
    except CourseError:
        return []  # opening the lesson reports the error


MOST_RESULTS = 60
"""Number of passages that a search shows; more are only counted."""
_NAME, _HEADING, _TEXT = 40, 20, 0


@dataclass(frozen=True)
class Passage:
    """A name, a heading or a paragraph."""

    page: Lesson | Exercise
    heading: str
    """Heading above the passage; empty if it is the page's name."""
    line: int
    """First line in the page's text, from 0."""
    text: str
    """Text to show."""
    weight: int
    searched: tuple[str, ...]
    """Texts to search, the most important first: a name before its summary."""

    @property
    def where(self) -> str:
        """The place in words: `Lesson 5  Keep the data moving › Streams`."""
        page = self.page
        name = f"Lesson {page.number}" if isinstance(page, Lesson) else f"Task {page.label}"
        heading = f" › {self.heading}" if self.heading else ""
        return f"{name}  {page.title}{heading}"


@dataclass(frozen=True)
class SearchResults:
    """Results of a search, best first."""

    passages: tuple[Passage, ...]
    total: int
    """Number of results, also those that are not shown."""


class TextIndex:
    """Index of a course's passages. For a thread: it reads all texts."""

    def __init__(self, course: Course) -> None:
        self._passages: list[Passage] = []
        for lesson in course.lessons:
            self._passages += _passages(lesson)
            for exercise in lesson.exercises:
                self._passages += _passages(exercise)

    def find(self, query: str) -> SearchResults:
        """Return the passages that fit all the words of `query`, in any order and case, best first."""
        if not query.strip():
            return SearchResults((), 0)
        matches = ranked(query, self._passages, lambda passage: passage.searched, lambda passage: passage.weight)
        # A heading is shown with the paragraph below it, which may have the words too.
        places: dict[tuple[str, str], Passage] = {}
        for passage, _ in matches:
            places.setdefault((passage.where, passage.text), passage)
        return SearchResults(tuple(places.values())[:MOST_RESULTS], len(places))


def _passages(page: Lesson | Exercise) -> Iterator[Passage]:
    label = str(page.number) if isinstance(page, Lesson) else page.label
    yield _passage(page, "", 0, page.summary, _NAME, page.title, f"{label} {page.summary}")
    try:
        text = page.text if isinstance(page, Lesson) else page.task
    except CourseError:
        return  # opening the page reports the error
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
                following = itertools.dropwhile(lambda line: not line.strip(), lines[number + 1 :])
                below = itertools.takewhile(str.strip, following)
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


def _passage(page: Lesson | Exercise, heading: str, line: int, text: str, weight: int, *searched: str) -> Passage:
    """`searched`: the texts to search, by default the text to show."""
    plain = " ".join(re.sub(r"[`*]+|^[-*] ", "", text).split())
    return Passage(page, heading, line, plain, weight, searched or (plain,))


def excerpt(text: str, query: str, width: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return at most `width` characters of `text` near the first word of `query`, and (start, end) of all its words.

    Omissions are marked with `…`.
    """
    first = next((start for start, _ in marks(query, text)), 0)
    start = 0
    if len(text) > width and first > width // 3:
        start = min(first - width // 3, len(text) - width)
        start = text.find(" ", start, first) + 1 or start
    shown = text[start:]
    if start:
        shown = "…" + shown
    if len(shown) > width:
        shown = shown[: width - 1].rstrip() + "…"
    return shown, marks(query, shown)

"""Motions and text objects of Vim: where a key leads to in lines of text, and what belongs together there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpututor.app.editor.python_text import Location, TextPositions

FINDS = "fFtT"
_WORD = re.compile(r"\w+|[^\w\s]+|^$", re.MULTILINE)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OPENING = {close: open for open, close in _CLOSING.items()}
_BRACKETS = {letter: pair[0] for pair in ("()b", "[]", "{}B") for letter in pair}
"""Opening bracket of each key after `i` or `a`."""


class Incomplete(Exception):
    """More keys must follow."""


class MotionTarget(NamedTuple):
    """The place that a motion leads to."""

    to: Location
    included: bool = False
    """True if an operator takes the character there, too."""
    lines: bool = False
    """True if an operator takes whole lines."""


def target(keys: str, count: int, cursor: Location, lines: Sequence[str], last_find: str = "") -> MotionTarget | None:
    """Return where a motion leads to; None if it is unknown or fails. `count`: 0 if none was typed.

    `last_find`: the last of the keys f, F, t and T with its character. Raises `Incomplete`.
    """
    (row, column), times = cursor, count or 1
    letter = keys[0]
    if letter in FINDS or letter in ";,":
        return _find_in_line(keys, times, cursor, lines[row], last_find)
    match letter:
        case "h":
            return MotionTarget((row, max(0, column - times)))
        case "l":
            return MotionTarget((row, min(len(lines[row]), column + times)))
        case "j" | "k" | "+" | "-":
            to = max(0, min(row + (times if letter in "j+" else -times), len(lines) - 1))
            return MotionTarget((to, column if letter in "jk" else indent(lines[to])), included=True, lines=True)
        case "w" | "b" | "e":
            return _by_words(letter, times, cursor, lines)
        case "0":
            return MotionTarget((row, 0))
        case "^":
            return MotionTarget((row, indent(lines[row])))
        case "$":
            to = min(row + times, len(lines)) - 1
            return MotionTarget((to, max(0, len(lines[to]) - 1)), included=True)
        case "G":
            to = min(count or len(lines), len(lines)) - 1
            return MotionTarget((to, indent(lines[to])), included=True, lines=True)
        case "g":
            if len(keys) < 2:
                raise Incomplete
            to = min(times, len(lines)) - 1
            return MotionTarget((to, indent(lines[to])), included=True, lines=True) if keys[1] == "g" else None
        case "{" | "}":
            return _by_paragraphs(times if letter == "}" else -times, row, lines)
        case "%":
            return _matching_bracket(cursor, lines)
    return None


def text_object(keys: str, cursor: Location, lines: Sequence[str]) -> tuple[Location, Location] | None:
    """Return both ends of what keys such as `iw` or `a(` name; None if there is none. Raises `Incomplete`."""
    if len(keys) < 2:
        raise Incomplete
    around, letter, line = keys[0] == "a", keys[1], lines[cursor[0]]
    if letter == "w":
        start, (row, end) = inner_word(cursor, line)
        return start, (row, end + (len(line[end:]) - len(line[end:].lstrip())) * around)
    if letter in "\"'`":
        return _quoted(letter, cursor, line, around=around)
    if letter in _BRACKETS:
        return _bracketed(_BRACKETS[letter], cursor, lines, around=around)
    return None


def inner_word(cursor: Location, line: str) -> tuple[Location, Location]:
    """Return the ends of the word, or of the space, at the cursor."""
    row, column = cursor
    parts = re.finditer(r"\w+|[^\w\s]+|\s+", line)
    start, end = next((part.span() for part in parts if part.start() <= column < part.end()), (column, column))
    return (row, start), (row, end)


def indent(line: str) -> int:
    """Return the number of blanks before the text."""
    return len(line) - len(line.lstrip())


def _by_words(letter: str, times: int, cursor: Location, lines: Sequence[str]) -> MotionTarget:
    text = "\n".join(lines)
    known = TextPositions(text)
    at = known.offset(cursor)
    words = list(_WORD.finditer(text))
    match letter:
        case "w":
            places, end = [word.start() for word in words if word.start() > at], len(text)
        case "e":
            places, end = [word.end() - 1 for word in words if word.end() - 1 > at and word[0]], max(0, len(text) - 1)
        case _:
            places, end = [word.start() for word in reversed(words) if word.start() < at], 0
    return MotionTarget(known.location(places[times - 1] if times <= len(places) else end), included=letter == "e")


def _find_in_line(keys: str, times: int, cursor: Location, line: str, last_find: str) -> MotionTarget | None:
    if keys[0] in FINDS and len(keys) < 2:
        raise Incomplete
    last = keys if keys[0] in FINDS else last_find or "  "
    kind, character = last[0], last[1]
    if keys[0] == ",":
        kind = kind.swapcase()
    row, at = cursor
    step = 1 if kind in "ft" else -1
    if kind in "tT" and keys[0] in ";,":
        at += step  # else it would find the same character again
    for _ in range(times):
        at = line.find(character, at + 1) if step > 0 else line.rfind(character, 0, max(0, at))
        if at < 0:
            return None
    return MotionTarget((row, at - step if kind in "tT" else at), included=step > 0)


def _by_paragraphs(times: int, row: int, lines: Sequence[str]) -> MotionTarget:
    """Go to an empty line, before or after lines with text; else to an end of the text."""
    step = 1 if times > 0 else -1
    for _ in range(abs(times)):
        while 0 <= row < len(lines) and not lines[row]:
            row += step
        while 0 <= row < len(lines) and lines[row]:
            row += step
    if row < 0:
        return MotionTarget((0, 0))
    return MotionTarget((row, 0)) if row < len(lines) else MotionTarget((len(lines) - 1, len(lines[-1])))


def _matching_bracket(cursor: Location, lines: Sequence[str]) -> MotionTarget | None:
    """Go from the first bracket of the line, at the cursor or after it, to its partner."""
    row, column = cursor
    bracket = re.search(r"[][(){}]", lines[row][column:])
    if bracket is None:
        return None
    at = (row, column + bracket.start())
    ends = _bracket(bracket[0] if bracket[0] in _CLOSING else _OPENING[bracket[0]], at, lines)
    return None if ends is None else MotionTarget(ends[1] if ends[0] == at else ends[0], included=True)


def _bracketed(
    opening: str, cursor: Location, lines: Sequence[str], *, around: bool
) -> tuple[Location, Location] | None:
    ends = _bracket(opening, cursor, lines)
    if ends is None:
        return None
    (first, start), (last, end) = ends
    return ((first, start), (last, end + 1)) if around else ((first, start + 1), (last, end))


def _bracket(opening: str, cursor: Location, lines: Sequence[str]) -> tuple[Location, Location] | None:
    """Return the places of the innermost pair of brackets around the cursor, or at it."""
    text = "\n".join(lines)
    known = TextPositions(text)
    at, starts = known.offset(cursor), list[int]()
    for bracket in re.finditer(f"[{re.escape(opening + _CLOSING[opening])}]", text):
        end = bracket.start()
        if bracket[0] == opening:
            starts.append(end)
        elif starts and (start := starts.pop()) <= at <= end:
            return known.location(start), known.location(end)
    return None


def _quoted(quote: str, cursor: Location, line: str, *, around: bool) -> tuple[Location, Location] | None:
    """Return the ends of the text in quotes, at the cursor or after it in the line."""
    row, column = cursor
    for pair in re.finditer(rf"{quote}(?:\\.|[^\\{quote}])*{quote}", line):
        if column < pair.end():
            return (row, pair.start() + (not around)), (row, pair.end() - (not around))
    return None

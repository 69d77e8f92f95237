"""Finding and replacing in a text. No Textual."""

from __future__ import annotations

import re
import signal
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

Location = tuple[int, int]
"""Row and column, from 0."""
Match = tuple[Location, Location]
"""Where a match begins, and the place behind its end."""

MOST_S = 0.1
"""The processor time that one search may take: a regular expression can go on for ever."""
MOST_MATCHES = 9999


class BadPattern(Exception):
    """What cannot be searched for; its text is for the learner."""


class _TookTooLong(Exception):
    pass


@dataclass(frozen=True)
class Needle:
    """What is looked for."""

    text: str
    regex: bool = False
    whole_word: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """Raises `BadPattern`. Without a capital letter the case does not matter."""
        source = self.text if self.regex else re.escape(self.text)
        if self.whole_word:
            source = rf"(?<!\w)(?:{source})(?!\w)"
        letters = re.sub(r"\\.", "", self.text) if self.regex else self.text
        ignore = re.IGNORECASE if letters == letters.lower() else re.NOFLAG
        try:
            return re.compile(source, re.MULTILINE | ignore)
        except (re.error, OverflowError, RecursionError) as error:
            raise BadPattern(f"Not a regular expression: {error}") from error


def find_all(needle: Needle, text: str) -> list[Match]:
    """Every match that is not empty, in order; raises `BadPattern`, also when the search takes too long."""
    if not needle.text:
        return []
    place = _Places(text)
    found: list[Match] = []
    with _limited():
        for match in needle.pattern.finditer(text):
            if match.end() > match.start():
                found.append((place.of(match.start()), place.of(match.end())))
            if len(found) == MOST_MATCHES:
                break
    return found


def replacement(needle: Needle, text: str, match: Match, by: str) -> str:
    r"""What comes in place of a match. In a regular expression's replacement `\1` is its first group."""
    if not needle.regex:
        return by
    place = _Places(text)
    with _limited():
        found = needle.pattern.match(text, place.offset(match[0]))
    return _expanded(found, by) if found else by


def replaced(needle: Needle, text: str, by: str) -> tuple[str, int]:
    """The text with every match replaced, and how many there were; raises `BadPattern`."""
    number = 0

    def put(match: re.Match[str]) -> str:
        nonlocal number
        if match.end() == match.start():
            return match[0]
        number += 1
        return _expanded(match, by) if needle.regex else by

    with _limited():
        text = needle.pattern.sub(put, text)
    return text, number


def _expanded(match: re.Match[str], by: str) -> str:
    try:
        return match.expand(by)
    except (re.error, IndexError) as error:
        raise BadPattern(f"Not a replacement: {error}") from error


def nearest(matches: list[Match], start: Location) -> int | None:
    """The first match at or behind a place, else the first of all."""
    if not matches:
        return None
    return next((index for index, match in enumerate(matches) if match[0] >= start), 0)


class _Places:
    """Offsets in a text as rows and columns, and back."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def of(self, offset: int) -> Location:
        row = bisect_right(self._starts, offset) - 1
        return row, offset - self._starts[row]

    def offset(self, location: Location) -> int:
        return self._starts[location[0]] + location[1]


@contextmanager
def _limited() -> Iterator[None]:
    """Ends what takes longer than `MOST_S`. Python looks at signals also within a search; only in the main thread."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TookTooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, MOST_S)
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TookTooLong:
        raise BadPattern("This search takes too long: make the expression simpler.") from None
    finally:
        signal.signal(signal.SIGVTALRM, before)

"""Find in the editor: the bar and the matches."""

from __future__ import annotations

import re
import signal
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from gpututor.app.messages import MatchWanted, ReplaceWanted, SearchChanged
from gpututor.app.widgets.base import PlainText

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


_ALWAYS = (("Alt+r", "Regex"), ("Alt+w", "Word"), ("Alt+l", "Replace all"))
"""What the keys do in every field, as (key, what it does)."""


class Word(Widget, can_focus=True):
    """A word that does something with Enter, Space or a click."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "press", show=False)]

    class Pressed(Message):
        """The learner pressed it."""

        def __init__(self, word: Word) -> None:
            super().__init__()
            self.word = word

    def __init__(self, words: str, letter: str = "", *, is_choice: bool = False) -> None:
        """`letter` of the words presses it together with Alt. `is_choice`: it is on or off, and says which."""
        super().__init__()
        self._words = words
        self._key_at = words.index(letter) if letter else None
        self._is_choice = is_choice
        self.is_on = False

    def render(self) -> Content:
        words = Content(self._words)
        if self._key_at is not None:
            words = words.stylize("underline", self._key_at, self._key_at + 1)
        if not self._is_choice:
            return words.stylize("$text-accent")
        mark = "●" if self.is_on else "○"
        return Content.assemble(f"{mark} ", words).stylize("$text-accent bold" if self.is_on else "$foreground-muted")

    def action_press(self) -> None:
        if self._is_choice:
            self.is_on = not self.is_on
            self.refresh()
        self.post_message(self.Pressed(self))

    def on_click(self) -> None:
        self.action_press()


class Field(Input):
    """A line to type in that leaves keys with Alt to others: terminals send their letter with them."""

    def on_key(self, event: events.Key) -> None:
        if event.key.startswith("alt+"):
            event.prevent_default()


class FindBar(Vertical):
    """Asks; whoever shows it searches. Escape is the screen's business."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority, and at once: keys that come right behind are for the field that follows.
        Binding("tab", "next_field(1)", show=False, priority=True),
        Binding("shift+tab", "next_field(-1)", show=False, priority=True),
        Binding("down", "go(1)", show=False),
        Binding("up,shift+enter", "go(-1)", show=False),
        Binding("alt+r", "press('regex')", show=False),
        Binding("alt+w", "press('whole-word')", show=False),
        Binding("alt+l", "press('all')", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._find = Field(compact=True, classes="find")
        self._by = Field(compact=True, classes="by")
        self._words = {
            "regex": Word("regex", "r", is_choice=True),
            "whole-word": Word("word", "w", is_choice=True),
            "this": Word("this one"),
            "all": Word("all", "l"),
        }
        self._counted = PlainText("", classes="counted")

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield PlainText("Find", classes="label")
            yield self._find
            with Horizontal(classes="side"):
                yield self._counted
                yield self._words["regex"]
                yield self._words["whole-word"]
        with Horizontal():
            yield PlainText("Replace", classes="label")
            yield self._by
            with Horizontal(classes="side"):
                yield self._words["this"]
                yield self._words["all"]
                yield PlainText("Esc closes", classes="foot")

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """What the keys do where they go now, as (key, what it does)."""
        if self._by.has_focus:
            return (("Enter", "Replace"), ("↓", "Next"), ("↑", "Before"), *_ALWAYS)
        if self._find.has_focus:
            return (("Enter", "Next"), ("↑", "Before"), ("Tab", "Replace"), *_ALWAYS)
        return (("Enter", "Choose"), ("↓", "Next"), ("↑", "Before"), *_ALWAYS)

    @property
    def needle(self) -> Needle:
        return Needle(self._find.value, self._words["regex"].is_on, self._words["whole-word"].is_on)

    @property
    def replacement(self) -> str:
        return self._by.value

    def open(self, needle: str) -> None:
        """Show the bar and take the keys; an empty `needle` leaves what was looked for last."""
        self.add_class("-open")
        if needle:
            self._find.value = needle
        self.screen.set_focus(self._find)
        self._find.action_select_all()

    def close(self) -> None:
        self.remove_class("-open")

    def show_count(self, words: str, *, nothing: bool) -> None:
        """Say how many there are; `nothing`: that is not what was hoped for."""
        self._counted.update(words)
        for widget in (self._counted, self._find):
            widget.set_class(nothing, "-nothing")

    @on(Input.Changed, ".find")
    def _look(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(SearchChanged())

    @on(Input.Changed, ".by")
    def _ignore(self, event: Input.Changed) -> None:
        event.stop()

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(MatchWanted(1) if event.input is self._find else ReplaceWanted(all=False))

    @on(Word.Pressed)
    def _do(self, event: Word.Pressed) -> None:
        event.stop()
        if event.word in (self._words["this"], self._words["all"]):
            self.post_message(ReplaceWanted(all=event.word is self._words["all"]))
        else:
            self.post_message(SearchChanged())

    def action_press(self, word: str) -> None:
        self._words[word].action_press()

    def action_go(self, by: int) -> None:
        self.post_message(MatchWanted(by))

    def action_next_field(self, by: int) -> None:
        words = self._words
        fields = [self._find, self._by, words["this"], words["all"], words["regex"], words["whole-word"]]
        at = next((index for index, field in enumerate(fields) if field.has_focus), 0)
        self.screen.set_focus(fields[(at + by) % len(fields)])

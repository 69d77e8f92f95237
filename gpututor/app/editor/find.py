"""Find in the editor: the bar and the matches."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
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

from gpututor.app.editor.python_text import Location, TextPositions
from gpututor.app.widgets.base import PlainText

Match = tuple[Location, Location]
"""Start of a match, and the place after its end."""

MOST_S = 0.1
"""Seconds of processor time for a search: a regular expression may never end."""
MOST_MATCHES = 9999


class BadPattern(Exception):
    """An invalid needle. The text is for the learner."""


class _TookTooLong(Exception):
    pass


@dataclass(frozen=True)
class Needle:
    """Text or expression to search for."""

    text: str
    regex: bool = False
    whole_word: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled pattern; without a capital letter it ignores the case. Raises `BadPattern`."""
        source = self.text if self.regex else re.escape(self.text)
        source = rf"(?<!\w)(?:{source})(?!\w)" if self.whole_word else source
        letters = re.sub(r"\\.", "", self.text) if self.regex else self.text
        ignore = re.IGNORECASE if letters == letters.lower() else re.NOFLAG
        try:
            return re.compile(source, re.MULTILINE | ignore)
        except (re.error, OverflowError, RecursionError) as error:
            raise BadPattern(f"Not a regular expression: {error}") from error


def find_all(needle: Needle, text: str) -> list[Match]:
    """Return all matches that are not empty. Raises `BadPattern`, also if the search takes too long."""
    if not needle.text:
        return []
    places = TextPositions(text)
    with _limited():
        matches = (match.span() for match in needle.pattern.finditer(text) if match[0])
        return [(places.location(start), places.location(end)) for start, end in islice(matches, MOST_MATCHES)]


def replacement(needle: Needle, text: str, match: Match, by: str) -> str:
    r"""Return the text to put in place of a match. For a regular expression, `\1` in `by` is its first group."""
    if not needle.regex:
        return by
    with _limited():
        again = needle.pattern.match(text, TextPositions(text).offset(match[0]))
    return _expanded(again, by) if again else by


def replace_all(needle: Needle, text: str, by: str) -> tuple[str, int]:
    """Return the text with every match replaced, and the number of matches. Raises `BadPattern`."""
    number = 0

    def put(match: re.Match[str]) -> str:
        nonlocal number
        if not match[0]:
            return ""
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


@contextmanager
def _limited() -> Iterator[None]:
    """Raise `BadPattern` after `MOST_S`. Only for the main thread: Python handles signals there, also in a search."""

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
"""(key, what it does) in every field."""


class WordButton(Widget, can_focus=True):
    """A word that is pressed with Enter, Space or a click."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "press", show=False)]

    class Pressed(Message):
        """The learner pressed the word."""

        def __init__(self, word: WordButton) -> None:
            super().__init__()
            self.word = word

    def __init__(self, words: str, letter: str = "", *, is_choice: bool = False) -> None:
        """`letter`, of the words, is underlined: Alt with it presses the word. `is_choice`: the word is on or off."""
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
    """An input that leaves keys with Alt to its parents: terminals send a letter with them."""

    def on_key(self, event: events.Key) -> None:
        if event.key.startswith("alt+"):
            event.prevent_default()


class FindBar(Vertical):
    """Inputs and words for find and replace. The screen handles Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority bindings act at once: keys typed right after Tab must go to the next field.
        Binding("tab", "next_field(1)", show=False, priority=True),
        Binding("shift+tab", "next_field(-1)", show=False, priority=True),
        Binding("down", "go(1)", show=False),
        Binding("up,shift+enter", "go(-1)", show=False),
        Binding("alt+r", "press('regex')", show=False),
        Binding("alt+w", "press('whole-word')", show=False),
        Binding("alt+l", "press('all')", show=False),
    ]

    def __init__(
        self, search: Callable[[], object], next_match: Callable[[int], object], replace: Callable[[bool], object]
    ) -> None:
        """`next_match` takes 1 or -1. `replace` takes True to replace all matches."""
        super().__init__()
        self._search, self._next_match, self._replace = search, next_match, replace
        self._find = Field(compact=True, classes="find")
        self._by = Field(compact=True, classes="by")
        self._words = {
            "regex": WordButton("regex", "r", is_choice=True),
            "whole-word": WordButton("word", "w", is_choice=True),
            "this": WordButton("this match"),
            "all": WordButton("all", "l"),
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
        """(key, what it does) for the focused widget."""
        if self._by.has_focus:
            return (("Enter", "Replace"), ("↓", "Next"), ("↑", "Previous"), *_ALWAYS)
        if self._find.has_focus:
            return (("Enter", "Next"), ("↑", "Previous"), ("Tab", "Replace"), *_ALWAYS)
        return (("Enter", "Choose"), ("↓", "Next"), ("↑", "Previous"), *_ALWAYS)

    @property
    def needle(self) -> Needle:
        return Needle(self._find.value, self._words["regex"].is_on, self._words["whole-word"].is_on)

    @property
    def replacement(self) -> str:
        return self._by.value

    def open(self, needle: str) -> None:
        """Show the bar and take the focus; an empty `needle` leaves the last one."""
        self.add_class("-open")
        if needle:
            self._find.value = needle
        self.screen.set_focus(self._find)
        self._find.action_select_all()

    def take_word(self, word: str) -> None:
        """Make a whole word the needle, without searching."""
        with self.prevent(Input.Changed):
            self._find.value = word
        for name, is_on in (("regex", False), ("whole-word", True)):
            self._words[name].is_on = is_on
            self._words[name].refresh()

    def close(self) -> None:
        self.remove_class("-open")

    def show_count(self, words: str, *, nothing: bool) -> None:
        """Show the number of matches; `nothing` marks it as a failure."""
        self._counted.update(words)
        for widget in (self._counted, self._find):
            widget.set_class(nothing, "-nothing")

    @on(Input.Changed)
    def _search_as_typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input is self._find:
            self._search()

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input is self._find:
            self._next_match(1)
        else:
            self._replace(False)

    @on(WordButton.Pressed)
    def _do(self, event: WordButton.Pressed) -> None:
        event.stop()
        if event.word in (self._words["this"], self._words["all"]):
            self._replace(event.word is self._words["all"])
        else:
            self._search()

    def action_press(self, word: str) -> None:
        self._words[word].action_press()

    def action_go(self, by: int) -> None:
        self._next_match(by)

    def action_next_field(self, by: int) -> None:
        words = self._words
        fields = [self._find, self._by, words["this"], words["all"], words["regex"], words["whole-word"]]
        at = next((index for index, field in enumerate(fields) if field.has_focus), 0)
        self.screen.set_focus(fields[(at + by) % len(fields)])

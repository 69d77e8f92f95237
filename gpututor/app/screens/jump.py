"""Letters over all places on the screen that the learner can jump to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from gpututor.app.screens.base import BaseModal
from gpututor.app.textual_private import strips_of

LETTERS = "asdfghjklqwertyuiopzxcvbnmASDFGHJKLQWERTYUPZXCVBNM"
"""The easiest to reach first; without I and O, which look like other characters."""

_FOOT = " Press a letter to go there. Any other key closes."
_PALE = Style(dim=True)


@dataclass(frozen=True)
class JumpTarget:
    """A place to jump to, and the position of its letter on the screen."""

    offset: Offset
    go: Callable[[], object]
    """Goes there, when the letter is pressed."""


def lettered(targets: Iterable[JumpTarget]) -> dict[str, JumpTarget]:
    """Assign letters to the targets in their order; never two letters in one place."""
    places: dict[Offset, JumpTarget] = {}
    for target in targets:
        places.setdefault(target.offset, target)
    return dict(zip(LETTERS, places.values(), strict=False))


class Picture(Widget):
    """The screen below, dimmed, with the letters on it. A widget for each letter would take 100 ms to appear."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"picture--letter", "picture--foot"}

    def __init__(self, strips: Sequence[Strip], letters: Mapping[str, Offset]) -> None:
        super().__init__()
        self._strips = strips
        self._letters = letters

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == self.size.height - 1:
            foot = Segment(_FOOT[:width].ljust(width), self.get_component_rich_style("picture--foot"))
            return Strip([foot], width)
        below = self._strips[y] if y < len(self._strips) else Strip.blank(width)
        parts: list[Strip] = []
        done = 0
        letter_style = self.get_component_rich_style("picture--letter")
        for letter, offset in sorted(self._letters.items(), key=lambda item: item[1].x):
            if offset.y == y:
                parts += [below.crop(done, offset.x).apply_style(_PALE), Strip([Segment(letter, letter_style)], 1)]
                done = offset.x + 1
        return Strip.join([*parts, below.crop(done, width).apply_style(_PALE)])


class JumpScreen(BaseModal[Callable[[], object] | None]):
    """Is dismissed with `go` of the target whose letter was pressed; with None after any other key."""

    def __init__(self, targets: Iterable[JumpTarget], below: Screen[Any]) -> None:
        super().__init__()
        self._targets = lettered(targets)
        self._size_at_first = below.size
        self._strips = strips_of(below)

    @property
    def letters(self) -> dict[str, Offset]:
        """The position of each letter."""
        return {letter: target.offset for letter, target in self._targets.items()}

    def compose(self) -> ComposeResult:
        yield Picture(self._strips, self.letters)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        target = self._targets.get(event.character or "")
        self.dismiss(target.go if target is not None else None)

    def on_click(self) -> None:
        self.dismiss(None)

    def on_resize(self, event: events.Resize) -> None:
        if event.size != self._size_at_first:
            self.dismiss(None)  # the letters would be in wrong places

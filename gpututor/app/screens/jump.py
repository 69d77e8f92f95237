"""Letters over everything that one can go to: press one, and be there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Offset
from textual.message import Message
from textual.widgets import Static

from gpututor.app.screens.once import OnceModal

LETTERS = "asdfghjklqwertyuiopzxcvbnmASDFGHJKLQWERTYUPZXCVBNM"
"""The easiest to reach first; without I and O, which look like others."""


@dataclass(frozen=True)
class Target:
    """Something to go to, and the place on the screen where its letter stands."""

    offset: Offset
    message: Message
    """What to post when its letter is pressed."""


def lettered(targets: Iterable[Target]) -> dict[str, Target]:
    """A letter for each target, the first ones first; never two in one place."""
    places: dict[Offset, Target] = {}
    for target in targets:
        places.setdefault(target.offset, target)
    return dict(zip(LETTERS, places.values(), strict=False))


class JumpScreen(OnceModal[Message | None]):
    """Is dismissed with the message of the target whose letter was pressed; None after any other key."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, targets: Iterable[Target]) -> None:
        super().__init__()
        self._targets = lettered(targets)
        self._size_at_first = self.app.size

    def compose(self) -> ComposeResult:
        for letter, target in self._targets.items():
            label = Static(letter, markup=False, classes="jump")
            label.styles.offset = target.offset
            yield label
        yield Static(" Press a letter to go there. Any other key closes.", markup=False, classes="foot")

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        target = self._targets.get(event.character or "")
        self.dismiss(target.message if target is not None else None)

    def on_click(self) -> None:
        self.dismiss(None)

    def on_resize(self, event: events.Resize) -> None:
        if event.size != self._size_at_first and self.is_current:
            self.dismiss(None)  # the letters would stand in wrong places

"""Screens that lie over the main one, and go once."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen, ScreenResultType


class OnceScreen(Screen[ScreenResultType]):
    """A screen that cannot be dismissed twice.

    Keys that arrive in one moment, such as two times Esc, all reach the screen that was there when they came. Textual
    would take each for an order to close whatever is on top by then: the main screen too.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()


class OnceModal(ModalScreen[ScreenResultType], OnceScreen[ScreenResultType]):
    """The same, with what is below it in sight.

    The modal screen is its first base, whose style sheets it has: of a second one Textual takes none.
    """

"""Screens that lie over the main one, and go once."""

from __future__ import annotations

from collections.abc import Sequence

from textual.await_complete import AwaitComplete
from textual.filter import LineFilter
from textual.screen import ModalScreen, ScreenResultType

from gpututor.app.screens.stepped import SteppedScreen
from gpututor.app.without_colours import Dim

_BELOW = Dim()


class OnceScreen(SteppedScreen[ScreenResultType]):
    """A screen that cannot be dismissed twice.

    Keys that arrive in one moment, such as two times Esc, all reach the screen that was there when they came. Textual
    would take each for an order to close whatever is on top by then: the main screen too.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()


class DimBelow(ModalScreen[ScreenResultType]):
    """A screen with what is below it in sight, and behind it."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What changes the styles of what is below; without colours there is none to darken."""
        filters = super().get_line_filters()
        return (*filters, _BELOW) if self.app.no_color else filters


class OnceModal(DimBelow[ScreenResultType], OnceScreen[ScreenResultType]):
    """One that goes once, with what is below it in sight.

    The modal screen is its first base, whose style sheets it has: of a second one Textual takes none.
    """

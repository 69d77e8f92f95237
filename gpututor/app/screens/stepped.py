"""Screens that answer keys between what they do to show a change."""

from __future__ import annotations

import asyncio

from textual.app import ScreenStackError
from textual.screen import Screen, ScreenResultType

_LOOK_AGAIN_S = 1 / 60


class SteppedScreen(Screen[ScreenResultType]):
    """Laid out in one step of the event loop, and painted in the next: once, for all that was asked for until then.

    Textual lays a screen out and paints it at once, and a new screen up to three times: 100 ms at 140x40 without a key.
    """

    _paints_soon = False

    def _compositor_refresh(self) -> None:
        if self.app.is_inline or self is not self.app.screen:
            super()._compositor_refresh()
        elif not self._paints_soon:
            self._paints_soon = True
            asyncio.get_running_loop().call_soon(self._paint)

    def _paint(self) -> None:
        self._paints_soon = False
        if self.app._batch_count:
            # What is painted now would be lost.
            self.set_timer(_LOOK_AGAIN_S, self._compositor_refresh)
            return
        try:
            if self._dirty_widgets:  # since it was laid out: painting forgets those that the compositor does not know
                self._compositor.update_widgets(self._dirty_widgets)
            super()._compositor_refresh()
        except ScreenStackError:
            return  # the app has left
        except Exception as error:
            self.app._handle_exception(error)

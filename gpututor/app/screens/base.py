"""Bases of all screens and dialogs. They paint once for each step of the event loop, and are dismissed only once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from textual import events, on
from textual.app import ComposeResult, ScreenStackError
from textual.await_complete import AwaitComplete
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.filter import LineFilter
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Button

from gpututor.app.commands import screen_bindings
from gpututor.app.textual_private import is_painting_batch, paint_changed
from gpututor.app.themes import dim
from gpututor.app.widgets.bars import TabBar
from gpututor.app.widgets.base import PlainText
from gpututor.errors import GradingError, TutorError
from gpututor.paths import log_file

_RETRY_S = 1 / 60


class Painter:
    """Paints a screen in the next step of the event loop: once for all requests until then.

    Textual lays a screen out and paints it at once, and a new screen up to three times: 100 ms at 140x40.
    """

    def __init__(self, screen: Screen[Any], paint: Callable[[], None]) -> None:
        self._screen = screen
        self._paint = paint
        self._paints_soon = False

    def request(self) -> None:
        """Paint soon; at once if the screen is not on top."""
        screen = self._screen
        if screen.app.is_inline or screen is not screen.app.screen:
            self._paint()
        elif not self._paints_soon:
            self._paints_soon = True
            asyncio.get_running_loop().call_soon(self._paint_now)

    def _paint_now(self) -> None:
        self._paints_soon = False
        screen = self._screen
        if is_painting_batch(screen.app):
            # A paint now would be lost.
            screen.set_timer(_RETRY_S, self.request)
            return
        try:
            paint_changed(screen)
            self._paint()
        except ScreenStackError:
            return  # the app has left
        except Exception as error:
            screen.call_later(_reraise, error)  # Textual ends the app for errors in callbacks


def _reraise(error: Exception) -> None:
    raise error


class BaseScreen(Screen[ScreenResultType]):
    """A screen that is painted once a step and cannot be dismissed twice.

    If keys arrive together, such as Esc twice, all of them reach the screen that was on top. With each of them Textual
    would close one more screen, even the main screen.
    """

    @cached_property
    def _painter(self) -> Painter:
        return Painter(self, super()._compositor_refresh)

    def _compositor_refresh(self) -> None:
        self._painter.request()

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def action_close(self) -> None:
        self.dismiss(None)


class BaseModal(ModalScreen[ScreenResultType]):
    """A `BaseScreen` in front of the screen below, which stays in sight."""

    @cached_property
    def _painter(self) -> Painter:
        return Painter(self, super()._compositor_refresh)

    def _compositor_refresh(self) -> None:
        self._painter.request()

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def action_close(self) -> None:
        self.dismiss(None)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters for the screen below; without colors, one dims it."""
        filters = super().get_line_filters()
        return (*filters, dim) if self.app.no_color else filters


class TabbedPages(Vertical):
    """A dialog of pages; the first focusable widget of a page gets the focus."""

    def __init__(
        self, title: str, pages: Mapping[str, Widget], foot: str, *, turned: Callable[[int], None] | None = None
    ) -> None:
        """`turned` is called with the number of each new page, from 1."""
        super().__init__(classes="dialog -tall -pages")
        self.number = 1
        """The current page, from 1."""
        self._bar = TabBar(tuple(pages), heading=title, id="pages-line")
        self._pages = list(pages.values())
        self._foot = foot
        self._turned = turned

    def compose(self) -> ComposeResult:
        yield self._bar
        yield from self._pages
        yield PlainText(self._foot, classes="foot")

    def show(self, number: int) -> None:
        """Show a page, counted from 1."""
        if not 1 <= number <= len(self._pages):
            return
        self.number = number
        for position, page in enumerate(self._pages, 1):
            page.display = position == number
        self._bar.show(number - 1)
        if self._turned is not None:
            self._turned(number)
        self.call_after_refresh(self._focus_page)

    def turn(self, by: int) -> None:
        """Show the page `by` steps further; after the last page comes the first."""
        self.show((self.number - 1 + by) % len(self._pages) + 1)

    def _focus_page(self) -> None:
        page = self._pages[self.number - 1]
        next((widget for widget in (page, *page.query("*")) if widget.focusable), page).focus()

    @on(TabBar.Chosen)
    def _show_chosen(self, message: TabBar.Chosen) -> None:
        message.stop()
        self.show(message.number + 1)


@dataclass(frozen=True)
class Answer:
    """An answer to a question."""

    id: str
    key: str
    """The key for this answer."""
    label: str


class QuestionDialog(BaseModal[str]):
    """A question, dismissed with the id of the answer. Escape answers `escape`, by default the last answer."""

    BINDINGS = screen_bindings("question")

    def __init__(self, title: str, text: str, answers: tuple[Answer, ...], *, escape: str = "") -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._answers = answers
        self._escape = escape or answers[-1].id
        self._foot = PlainText("", classes="foot")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield PlainText(self._title, classes="title")
            yield PlainText(self._text, classes="text")
            with Horizontal(classes="answers"):
                for answer in self._answers:
                    label = Content.assemble((answer.key, "underline bold"), f" {answer.label}")
                    yield Button(label, name=answer.id, compact=True)
            if len(self._answers) > 1:
                yield self._foot

    @on(events.DescendantFocus)
    def _name_answer(self, event: events.DescendantFocus) -> None:
        """Say what Enter answers: the focus alone is easily overlooked."""
        chosen = next(answer for answer in self._answers if answer.id == event.widget.name)
        self._foot.update(f"Enter: {chosen.label}   ← →: choose")

    def on_mount(self) -> None:
        for button in list(self.query(Button))[-1:]:  # None while the app is leaving: Textual mounts nothing then.
            button.focus()

    def on_key(self, event: events.Key) -> None:
        answer = next((answer for answer in self._answers if answer.key == event.key), None)
        if answer is not None:
            event.stop()
            self.dismiss(answer.id)

    def action_give_up(self) -> None:
        self.dismiss(self._escape)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.name)


def error_dialog(error: TutorError) -> QuestionDialog:
    """Create a dialog with the error and the advice; with the path of the log if gpututor itself is at fault."""
    log = f"The log is {log_file()}" if isinstance(error, GradingError) else ""
    return QuestionDialog(error.title, "\n\n".join(filter(None, [error.advice, log])), (Answer("close", "c", "Close"),))

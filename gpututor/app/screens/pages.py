"""A screen of few pages, one shown at a time: digits and Tab turn them, Esc closes."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from gpututor.app.screens.once import OnceModal
from gpututor.app.themes import CHOSEN
from gpututor.app.widgets.plain import PlainText

Answered = TypeVar("Answered")


class PagesScreen(OnceModal[Answered]):
    """Its pages are widgets; the first widget of a page that can have the focus gets it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", show=False),
        Binding("tab", "turn(1)", show=False, priority=True),
        Binding("shift+tab", "turn(-1)", show=False, priority=True),
        *(Binding(str(number), f"page({number})", show=False) for number in range(1, 5)),
    ]
    FOOT: ClassVar[str] = "Tab turns the page   Esc closes"

    def __init__(self, title: str, pages: dict[str, Widget], page: int = 1) -> None:
        super().__init__()
        self._title = title
        self._pages = pages
        self.page = page
        """The page that is shown, from 1."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall -pages"):
            yield PageLine(self._title, tuple(self._pages), id="pages-line")
            yield from self._pages.values()
            yield PlainText(self.FOOT, classes="foot")

    def on_mount(self) -> None:
        self.action_page(self.page)

    def action_page(self, number: int) -> None:
        """Show a page."""
        if not 1 <= number <= len(self._pages):
            return
        self.page = number
        for position, page in enumerate(self._pages.values(), 1):
            page.display = position == number
        self.query_one(PageLine).show(number)
        self.shown(number)
        self.call_after_refresh(self._focus)

    def _focus(self) -> None:
        page = list(self._pages.values())[self.page - 1]
        widgets = [page, *page.query("*")]
        (next((widget for widget in widgets if widget.focusable), page)).focus()

    def shown(self, number: int) -> None:
        """A page was turned to; screens that have to do something then, do it here."""

    def action_turn(self, by: int) -> None:
        self.action_page((self.page - 1 + by) % len(self._pages) + 1)

    def action_close(self) -> None:
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        number = event.style.meta.get("page")
        if number:
            self.action_page(int(number))


class PageLine(Static):
    """The title and the names of the pages, the shown one marked."""

    def __init__(self, title: str, names: tuple[str, ...], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title = title
        self._names = names

    def show(self, number: int) -> None:
        parts = [Content.assemble((f"{self._title}  ", "bold"))]
        for position, name in enumerate(self._names, 1):
            style = CHOSEN if position == number else "$foreground-muted"
            text = Content.assemble((f" {position} {name} ", style))
            parts.append(text.stylize(Style.from_meta({"page": position})))
        self.update(Content("").join(parts))

"""Search through the names and texts of the course."""

from __future__ import annotations

from collections.abc import Callable

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.course_index import MOST_RESULTS, Passage, SearchResults, TextIndex, excerpt
from gpututor.app.screens.base import BaseModal
from gpututor.app.widgets.base import PlainText, marked
from gpututor.grading.report_text import count


class SearchScreen(BaseModal[tuple[Passage | None, str]]):
    """Dismissed with the chosen passage, or None, and the typed words."""

    BINDINGS = screen_bindings("search")

    def __init__(self, index: Callable[[], TextIndex], query: str = "") -> None:
        """`index` may take its time; a thread calls it."""
        super().__init__()
        self._make_index = index
        self._index: TextIndex | None = None
        self._query = query
        self._results = SearchResults((), 0)
        self._drawn_width = 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall search"):
            yield PlainText("Search", classes="title")
            yield Input(self._query, placeholder="words in lessons, tasks and names", compact=True)
            yield OptionList(id="found", markup=False, compact=True)
            yield PlainText(foot("search"), classes="foot")

    def on_mount(self) -> None:
        # Loops: while the app is leaving, Textual mounts nothing.
        for places in self.query(OptionList):
            places.can_focus = False
        for field in self.query(Input):
            field.focus()
        self.run_worker(self._index_texts, thread=True, exit_on_error=True)

    def _index_texts(self) -> None:
        self._index = self._make_index()
        self.call_later(self._search)

    @on(Input.Changed)
    def _take_words(self, message: Input.Changed) -> None:
        self._query = message.value
        self._search()

    def _search(self) -> None:
        self._results = self._index.find(self._query) if self._index is not None else SearchResults((), 0)
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._redraw)

    def _redraw(self) -> None:
        if self._drawn_width != self._width:
            self._draw()

    @property
    def _width(self) -> int:
        # One column less: the rows may need a scroll bar.
        return max(20, self.query_one(OptionList).size.width - 1)

    def _draw(self) -> None:
        self._drawn_width = self._width
        results = self.query_one(OptionList)
        results.set_options(Option(self._row(passage)) for passage in self._results.passages)
        results.highlighted = 0 if self._results.passages else None
        results.scroll_home(animate=False)
        self.query_one(".title", PlainText).update(self._title())

    def _title(self) -> str:
        if not self._query.strip():
            return "Search"
        if self._index is None:
            return "Search: reading the texts"
        total = self._results.total
        if not total:
            return f"Search: nothing has “{self._query.strip()}”"
        return f"Search: {count(total, 'place')}" + (f", the best {MOST_RESULTS}" if total > MOST_RESULTS else "")

    def _row(self, passage: Passage) -> Content:
        where = self._excerpt(passage.where, self._width).stylize_before("bold")
        return Content.assemble(where, "\n  ", self._excerpt(passage.text, self._width - 2))

    def _excerpt(self, text: str, width: int) -> Content:
        shown, spans = excerpt(text, self._query, width)
        return marked(Content(shown), spans, no_color=self.app.no_color)

    @on(Input.Submitted)
    def _open(self) -> None:
        row = self.query_one(OptionList).highlighted
        if row is not None:
            self.dismiss((self._results.passages[row], self._query))

    @on(OptionList.OptionSelected)
    def _open_clicked(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self.dismiss((self._results.passages[message.option_index], self._query))

    async def action_move(self, action: str) -> None:
        await self.query_one(OptionList).run_action(action)

    def action_close(self) -> None:
        self.dismiss((None, self._query))

"""Shows one Markdown text: a lesson, a task, or hints."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from gpututor.app.messages import LinkFollowed

if TYPE_CHECKING:
    from textual.widgets import Markdown


class Reader(VerticalScroll, can_focus=True):
    """A scrolling text. Before `start` it shows its text plainly: Markdown costs 40 ms that the first paint has not."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("space", "page_down", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plain = Static("", markup=False, classes="plain")
        self._markdown: Markdown | None = None
        self._text = ""

    def compose(self) -> ComposeResult:
        yield self._plain

    @property
    def text(self) -> str:
        """The Markdown that is shown."""
        return self._text

    async def start(self) -> None:
        """Show Markdown as Markdown from now on."""
        from textual.widgets import Markdown  # 40 ms: imported after the first paint

        if self._markdown is not None:
            return
        self._markdown = Markdown(self._text, open_links=False)
        await self.mount(self._markdown)
        self._plain.display = False

    def show(self, text: str) -> None:
        """Show another text, from its top."""
        if text == self._text:
            return
        self._text = text
        if self._markdown is None:
            self._plain.update(text)
        else:
            self._markdown.update(text)
        self.scroll_home(animate=False)

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        event.stop()
        self.post_message(LinkFollowed(event.href))

"""Reader of a Markdown text: a lesson, a task, or hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from gpututor.app.commands import screen_bindings
from gpututor.app.messages import LinkFollowed
from gpututor.app.widgets.base import restyle
from gpututor.app.wording import reflowed

if TYPE_CHECKING:
    from textual.geometry import Offset
    from textual.widgets import Markdown

    from gpututor.app.widgets.markdown import CourseText, Link


class Reader(VerticalScroll, can_focus=True):
    """Scrolling text, plain until `start`: Markdown costs 40 ms, too much for the first paint."""

    BINDINGS = screen_bindings("reader")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plain = Static("", markup=False, classes="plain")
        self._markdown: CourseText | None = None
        self.text = ""
        """The Markdown that is shown."""
        self.place = ""
        """Name of the text that is shown."""
        self._offsets: dict[str, float] = {}
        """Scroll position of each text when another text came."""
        self._wanted: tuple[int, bool] | None = None
        """A line to scroll to once the text is drawn, and True to mark it."""
        self._is_drawn = True
        """True if the text is drawn at its scroll position."""

    def update_node_styles(self, animate: bool = True) -> None:
        restyle(self, (self,), animate=animate)

    def compose(self) -> ComposeResult:
        yield self._plain

    async def start(self) -> None:
        from gpututor.app.widgets.markdown import CourseText  # 40 ms: imported after the first paint

        if self._markdown is not None or not self.is_attached:  # the app may be leaving already
            return
        self._markdown = CourseText(self.text)
        await self.mount(self._markdown)
        self._plain.display = False

    def show(self, text: str, place: str = "") -> None:
        """Show another text at its last scroll position, which is stored by the name `place`."""
        if (text, place) == (self.text, self.place):
            return
        if self._is_drawn:
            self._offsets[self.place] = self.scroll_y
        is_other, self.text, self.place, self._wanted = place != self.place, text, place, None
        if self._markdown is None:
            self._plain.update(reflowed(text))
            return
        if is_other:
            # The title changes at once: the old text must not be seen below it.
            self._is_drawn = self._markdown.display = False
        self.call_later(self._draw, text)

    async def _draw(self, text: str) -> None:
        if self._markdown is None or text != self.text:
            return
        self._markdown.choose(None)
        await self._markdown.update(text)
        if text == self.text:
            self._markdown.display = True
        self.call_after_refresh(self._scroll_to_place)

    def _scroll_to_place(self) -> None:
        if self._markdown is None or not self._markdown.display:
            return  # another text is about to be drawn
        self._is_drawn = True
        if self._wanted is None:
            self.scroll_to(y=self._offsets.get(self.place, 0), animate=False)
        else:
            self._scroll_to_line(*self._wanted)

    def go_to_line(self, line: int, *, marked: bool = True) -> None:
        """Scroll to a line of the text, from 0, and mark its block."""
        self._wanted = (line, marked)
        self.call_later(self.call_after_refresh, self._scroll_to_line, line, marked)

    def go_to_top(self) -> None:
        """Scroll to the start of the text, and forget its last position."""
        self._offsets[self.place] = 0
        self._wanted = None
        self.scroll_home(animate=False)

    def _scroll_to_line(self, line: int, marked: bool) -> None:
        if self._markdown is None:
            return
        block = self._markdown.block_at(line)
        if block is None:
            return
        self._markdown.query(".-found").remove_class("-found")
        block.set_class(marked, "-found")
        self.scroll_to_widget(block, animate=False, top=True)

    # Links

    @property
    def visible_links(self) -> list[tuple[Link, Offset]]:
        """Links in sight, and the position of each on the screen."""
        return self._markdown.visible_links() if self._markdown is not None and self.is_on_screen else []

    @property
    def chosen_target(self) -> str:
        """Target of the chosen link; empty without one."""
        chosen = self._markdown.chosen if self._markdown is not None else None
        return chosen.target if chosen is not None else ""

    def action_choose_link(self, by: int) -> None:
        """Choose the next or previous link; without a chosen link, choose a visible link."""
        if self._markdown is None or not (links := self._markdown.links):
            return
        chosen = self._markdown.chosen
        visible = [link for link, _ in self._markdown.visible_links()]
        if chosen in links:
            link = links[(links.index(chosen) + by) % len(links)]
        else:
            link = (visible or links)[0 if by > 0 else -1]
        self._markdown.choose(link)
        if link not in visible:
            self.scroll_to_widget(link.block, animate=False)

    def action_follow_link(self) -> None:
        """Follow the chosen link; without one, choose the first in sight."""
        if self._markdown is None:
            return
        if self._markdown.chosen is None:
            self.action_choose_link(1)
        else:
            self.post_message(LinkFollowed(self._markdown.chosen.target))

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        event.stop()
        self.post_message(LinkFollowed(event.href))

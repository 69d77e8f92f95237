"""The lines above and below the tabs of the device screen: their titles, and the keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from gpututor.app.themes import CHOSEN

Key = tuple[str, str]
"""A key, and what it does."""


@dataclass
class TabChosen(Message):
    """The learner clicked a tab."""

    number: int
    """From 0."""


class TabTitles(Widget):
    """The tabs by number, the one in use marked; on the right the exercise and the attempt."""

    def __init__(self, titles: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._titles = tuple(titles)
        self._current, self._title, self._hazards = 0, "", 0

    def show(self, current: int, title: str, hazards: int) -> None:
        self._current, self._title, self._hazards = current, title, hazards
        self.refresh()

    def render(self) -> Content:
        parts: list[Content] = [Content(" ")]
        for number, name in enumerate(self._titles):
            mark = " !" if name == "Hazards" and self._hazards else ""
            text = Content.assemble((f" {number + 1} {name}{mark} ", self._style(number)))
            parts.append(text.stylize(Style.from_meta({"tab": number})))
        line = Content("").join(parts)
        room = self.size.width - line.cell_length - 2
        if room < 6:
            return line
        title = Content(self._title).truncate(room, ellipsis=True)
        return Content.assemble(line, " " * (room - title.cell_length + 1), title.stylize("$foreground-muted"))

    def on_click(self, event: events.Click) -> None:
        number = event.style.meta.get("tab")
        if number is not None:
            self.post_message(TabChosen(int(number)))

    def _style(self, number: int) -> str:
        if number != self._current:
            return "$foreground-muted"
        return CHOSEN


class Keys(Widget):
    """The keys of the tab, as many as fit, then those of the screen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._of_the_tab: list[Key] = []
        self._of_the_screen: list[Key] = []

    def show(self, of_the_tab: list[Key], of_the_screen: list[Key]) -> None:
        """The keys of the tab with the most useful first; those of the screen always stay."""
        self._of_the_tab, self._of_the_screen = of_the_tab, of_the_screen
        self.refresh()

    def render(self) -> Content:
        room = self.size.width + 1 - sum(map(_width, self._of_the_screen))
        shown = []
        for entry in self._of_the_tab:
            if _width(entry) <= room:
                room -= _width(entry)
                shown.append(entry)
        parts: list[Content | str | tuple[str, str]] = [" "]
        for key, words in (*shown, *self._of_the_screen):
            parts += [(key, "$text-accent bold"), (f" {words}  ", "$foreground-muted")]
        return Content.assemble(*parts)


def _width(entry: Key) -> int:
    return len(entry[0]) + len(entry[1]) + 3


def split_keys(*entries: str) -> list[Key]:
    """Of `[ ] move · Enter line` the keys and what they do: the first word, or both brackets, is the key."""
    found = []
    for entry in " · ".join(entries).split(" · "):
        key, _, words = entry.replace("[ ] ", "[] ").partition(" ")
        if words:
            found.append((key.replace("[]", "[ ]"), words))
    return found

"""Which machine a check belongs to: headings above the checks, and the one that is scrolled out of sight."""

from __future__ import annotations

from textual.containers import VerticalScroll

from gpututor.app.widgets.plain import PlainText
from gpututor.grading.words import device_words


class Machines(PlainText):
    """The headings in a list of checks. Shows that of the topmost checks in sight, while it is not itself in sight."""

    def __init__(self, body: VerticalScroll) -> None:
        super().__init__("", classes="machine")
        self._body = body
        self._headings: dict[str, PlainText] = {}

    def on_mount(self) -> None:
        for what in ("scroll_y", "virtual_size"):
            self.watch(self._body, what, self._look_soon, init=False)

    def begin(self, scenario: str, device: str) -> None:
        """A machine's turn: its checks come below a heading, where there is more than one machine."""
        if scenario not in self._headings:
            where = device_words(device)
            text = where if where.startswith(scenario) else f"{scenario}: {where}"
            heading = PlainText(text, classes="scenario" if self._headings else "scenario -first")
            self._headings[scenario] = heading
            self._body.mount(heading)
        for heading in self._headings.values():
            heading.display = len(self._headings) > 1

    def forget(self) -> None:
        """No machine had its turn yet; the headings are removed with the rest of the list."""
        self._headings.clear()
        self.update("")

    def _look_soon(self) -> None:
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        top = self._body.scroll_offset.y
        if len(self._headings) < 2:
            return
        above = [one for one in self._headings.values() if one.is_attached and one.virtual_region.y <= top + 1]
        is_hidden = bool(above) and above[-1].virtual_region.y < top
        self.update(str(above[-1].content) if is_hidden else "")

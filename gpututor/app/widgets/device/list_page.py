"""A page with a list of what points at lines of the learner's file."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList

from gpututor.app.messages import LineChosen
from gpututor.app.widgets.option_rows import OptionRows


class ListPage(Vertical):
    """The list and its keys; posts `LineChosen` for what was picked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "list('cursor_down')", show=False),
        Binding("k", "list('cursor_up')", show=False),
        Binding("g", "list('first')", show=False),
        Binding("G", "list('last')", show=False),
    ]
    KEYS = "↑↓ choose · Enter line"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.list = OptionRows(markup=False, compact=True)

    def line_at(self, position: int) -> int | None:
        """The line of the file that a row of the list points at, from 1."""
        raise NotImplementedError

    def take_focus(self) -> None:
        """Give the keys to the list."""
        self.list.focus()

    async def action_list(self, action: str) -> None:
        await self.list.run_action(action)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        line = self.line_at(event.option_index)
        if line is None:
            self.app.bell()
        else:
            self.post_message(LineChosen(line))

"""The device screen with what goes beyond looking: comparing, taking the trace along, a picture of the screen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from gpututor.app.screens.compare import CompareScreen
from gpututor.app.screens.device import DeviceScreen
from gpututor.app.widgets.device.beside import Other
from gpututor.app.widgets.device.view import RunView
from gpututor.app.widgets.plain import PlainText
from gpututor.errors import TutorError


@dataclass(frozen=True)
class Tools:
    """What the screen cannot know by itself."""

    exports: Path
    """The folder for what is written."""
    find_others: Callable[[RunView], tuple[Other, ...]]
    """What an attempt can be set beside; reads files."""
    save_screen: Callable[[Callable[[str], object]], None]
    """Writes a picture of the screen, and tells the function it is given what came of it, later."""


@dataclass
class Exported(Message):
    """A file was written, or could not be."""

    words: str


class DeviceToolsScreen(DeviceScreen):
    """One attempt, with tools."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("V,shift+f11,f23", "compare", show=False),
        Binding("X", "export", show=False),
        Binding("S", "save_screen", show=False),
    ]
    MORE_KEYS = ("V compare", "X export")

    def __init__(self, view: RunView | None, nothing: str, tools: Tools, *, running: bool = False) -> None:
        super().__init__(view, nothing, running=running)
        self._tools = tools
        self._news = PlainText("", id="device-news")
        self._news.display = False

    def compose(self) -> Iterator[Widget]:
        *others, keys = super().compose()
        yield from others
        yield self._news
        yield keys

    def show_news(self, words: str) -> None:
        """A line above the keys, until the next one."""
        self._news.update(words)
        self._news.display = bool(words)

    def action_compare(self) -> None:
        """Set the attempt beside another."""
        view = self.view
        if view is not None:
            screen = CompareScreen(view, lambda: self._tools.find_others(view), self._tools.save_screen)
            self.app.push_screen(screen, self._after_comparison)

    def _after_comparison(self, line: int | None) -> None:
        if line is not None:
            self.dismiss(line)

    def action_export(self) -> None:
        """Write the trace of the call for Perfetto; a long one takes a moment."""
        view = self.view
        if view is None:
            return
        if view.loaded is None:
            self.show_news("The trace is still being read.")
            return
        self.show_news("Writing the trace …")
        threading.Thread(target=lambda: self.post_message(Exported(self._export(view))), daemon=True).start()

    def action_save_screen(self) -> None:
        """Write a picture of the screen."""
        self._tools.save_screen(self.show_news)

    def _export(self, view: RunView) -> str:
        from gpututor.app.exports import FOLDER, export_trace

        try:
            path = export_trace(self._tools.exports, view)
        except TutorError as error:
            return f"{error.title} {error.advice}"
        return f"Written: {FOLDER}/{path.name}. Open it in https://ui.perfetto.dev"

    @on(Exported)
    def _tell(self, message: Exported) -> None:
        message.stop()
        self.show_news(message.words)

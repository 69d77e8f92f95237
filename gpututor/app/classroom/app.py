"""The instructor's app: one class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.screen import Screen

from gpututor.app import style_sheets
from gpututor.app.base import BaseApp
from gpututor.app.classroom.again import AgainClient
from gpututor.app.classroom.class_screen import ClassScreen
from gpututor.app.classroom.reading import Source
from gpututor.app.idle import IdleCollector
from gpututor.app.log import write_log
from gpututor.paths import log_file
from gpututor.settings import SettingsFile

if TYPE_CHECKING:
    from textual.command import Provider


def palette_provider() -> type[Provider]:
    """What fills the palette; imported when it is first opened."""
    from gpututor.app.classroom.palette import OfTheClass

    return OfTheClass


class ClassroomApp(BaseApp):
    """Shows a class that was graded. Everything that it works on is handed in."""

    TITLE = "gpututor classroom"
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        style_sheets.path_of(name) for name in (*style_sheets.FIRST, *style_sheets.LATER, style_sheets.CLASSROOM)
    ]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {palette_provider}

    def __init__(
        self,
        source: Source,
        grading: AgainClient,
        *,
        settings: SettingsFile | None = None,
        collector: IdleCollector | None = None,
    ) -> None:
        super().__init__(client=grading.client, settings=settings, collector=collector)
        self._source = source
        self._grading = grading

    def get_default_screen(self) -> Screen[Any]:
        return ClassScreen(self._source, self._grading)

    def _fatal_error(self) -> None:
        """A fault of ours that nobody foresaw: the log has what Textual would print."""
        error = sys.exc_info()[1] or self._exception
        if error is not None:
            write_log(error)
        self.bell()
        words = (
            f"gpututor stopped in an unexpected way: {error!r}\nNothing of the class is lost. The log is {log_file()}"
        )
        self.panic(Text(words))

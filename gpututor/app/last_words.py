"""What is said when a fault of ours that nobody foresaw ends the app, and what became of the learner's file."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from gpututor.app.log import write_log
from gpututor.app.main.screen import MainScreen
from gpututor.paths import log_file


def last_words(error: BaseException | None, desks: Sequence[MainScreen]) -> Text:
    """Write the log, save what is open on `desks`, and say what became of it."""
    if error is not None:
        write_log(error)
    return Text(
        f"gpututor stopped in an unexpected way: {error!r}\n"
        f"{_rescued(desks)} Start gpututor again to go on. The log is {log_file()}"
    )


def _rescued(desks: Sequence[MainScreen]) -> str:
    """Save what is open, whatever else is broken; what became of it."""
    try:
        for desk in desks:
            desk.rescue()
    except Exception as error:
        write_log(error)
        return "Your last edits could not be kept."
    with_file = [desk for desk in desks if desk.has_file]
    if not with_file:
        return "No file was open."
    if all(desk.is_saved for desk in with_file):
        return "Your file is saved."
    return "Your last edits are kept apart, and are offered when you open the exercise again."

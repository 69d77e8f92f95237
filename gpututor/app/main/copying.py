"""Copying to the terminal's clipboard (OSC 52): the report, the path of the file, the command that grades it."""

from __future__ import annotations

import shlex

from gpututor.app.commands import Pane
from gpututor.app.main.host import Host
from gpututor.app.widgets.output import OutputSection, as_text
from gpututor.course.workspace import find_workspace
from gpututor.paths import builtin_course

COPIES = {
    "Copy the report": ("copy_report", "The full report of the results, as text."),
    "Copy the path of my file": ("copy_path", "The path of your file of this exercise."),
    "Copy the command that grades this": ("copy_command", "The gpututor grade command, for another shell."),
}
"""Entries of the palette that copy a text: a method of the controller, and a sentence."""


class CopyController:
    """Copies texts about the open exercise."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def copy(self) -> None:
        """Copy the full report from the results; from any other pane, the path of the file."""
        if self._host.panes.current is Pane.RESULTS:
            self.copy_report()
        else:
            self.copy_path()

    def copy_report(self) -> None:
        """Copy the full report as text; before the first run and during a run there is none."""
        exercise, sections = self._host.exercise, self._host.panes.results.sections
        if not sections:
            self._host.status.show_reply("There are no results yet.")
            return
        self._copy(as_text([OutputSection(f"{exercise.label} {exercise.title}", ""), *sections]))

    def copy_path(self) -> None:
        self._copy(str(self._host.learner.workspace.path_of(self._host.exercise)))

    def copy_command(self) -> None:
        """Copy a command that grades the file in another shell, with the options that find it there."""
        learner = self._host.learner
        words = ["gpututor", "grade", self._host.exercise.label]
        if learner.course.folder != builtin_course():
            words += ["--course", str(learner.course.folder)]
        usual = find_workspace(None, learner.course)
        if usual is None or usual.folder != learner.workspace.folder:
            words += ["--workspace", str(learner.workspace.folder)]
        self._copy(shlex.join(words))

    def _copy(self, text: str) -> None:
        self._host.panes.app.copy_to_clipboard(text)

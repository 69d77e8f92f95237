"""How the instructor's app starts: the class is looked for, and a judge is kept for who asks for a grading."""

from __future__ import annotations

import sys
from pathlib import Path

from gpututor.app.classroom.app import ClassroomApp
from gpututor.app.classroom.class_table import Source
from gpututor.app.classroom.regrade_client import RegradeClient
from gpututor.app.runtime import GcScheduler
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.jobs import Options
from gpututor.classroom.review import review_of
from gpututor.classroom.rules import rules_for
from gpututor.errors import UsageError
from gpututor.grading.client import GradingClient


def source_of(folder: ClassFolder, rules: Path | None = None, course_folder: Path | None = None) -> Source:
    """The class in a folder, as it is whenever it is read."""

    def gradebook() -> Gradebook:
        return make_gradebook(folder, rules_for(folder, rules), course_folder)

    return Source(folder.folder.name, gradebook, lambda made: review_of(folder, made))


def run(folder: ClassFolder, rules: Path | None = None, course_folder: Path | None = None) -> int:
    """Start the app and return the exit status. Raises `TutorError` for what keeps it from starting."""
    options = Options.read(folder)
    rules_for(folder, rules)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        advice = f"Without one, `gpututor classroom report {folder.folder}` prints a table."
        raise UsageError("The screen needs a terminal, and this is none.", advice)
    client = GradingClient("process" if options.isolation == "process" else "bubblewrap")
    try:
        grading = RegradeClient(folder, client, course_folder)
        ClassroomApp(source_of(folder, rules, course_folder), grading, collector=GcScheduler()).run()
    finally:
        client.close()
    return 0

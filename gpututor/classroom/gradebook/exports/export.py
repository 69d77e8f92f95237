"""An LMS export: one option of `classroom report`, and the files that it writes (a contract of all exports)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.folder import ClassFolder, clear_parts
from gpututor.classroom.gradebook.model import Gradebook, GradebookWarning
from gpututor.errors import UsageError
from gpututor.files import write_atomically
from gpututor.grading.report_text import count

MOST_NAMED = 10
"""Students that a notice names."""


@dataclass(frozen=True)
class ExportRequest:
    """A gradebook and the place to write it to."""

    gradebook: Gradebook
    folder: ClassFolder
    path: Path
    roster: Path | None = None
    """A table that the platform exported."""


@dataclass(frozen=True)
class Export:
    """A format of the gradebook for another program. A row of `EXPORTS` makes it an option of `classroom report`."""

    option: str
    """`csv-checks` for `--csv-checks FILE`."""
    help: str
    """A line for `classroom report --help` and docs/classroom/rules.md."""
    place: str
    """Path below OUT/report with `--all`."""
    write: Callable[[ExportRequest], Iterable[GradebookWarning]]
    """Writes it, and returns notices for the instructor. Raises `UsageError`."""
    file_name: str = ""
    """Name of each student's file, where the export is a folder; empty where it is one file."""
    roster_help: str = ""
    """A line about `--OPTION-roster FILE`; empty where the export takes no roster."""
    layout: str = ""
    """Layout of the only classes that `--all` writes it for without a roster; empty for every class."""

    @property
    def name(self) -> str:
        """Attribute of the parsed arguments."""
        return self.option.replace("-", "_")

    @property
    def metavar(self) -> str:
        return "DIR" if self.file_name else "FILE"

    def clear_parts(self, path: Path) -> None:
        """Remove what killed reports left at `path`."""
        if not self.file_name:
            clear_parts(path.parent, path.name)
        for folder in path.glob("*/") if self.file_name else ():
            clear_parts(folder, self.file_name)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises `UsageError`."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})", "Name another place.") from error


def remove(path: Path) -> None:
    """Remove the file, if it is there. Raises `UsageError`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be removed ({error.strerror})", "Name another place.") from error


def left_over(
    folder: Path, names: Iterable[str], known: Collection[str], what: str, use: str
) -> Iterator[GradebookWarning]:
    """Warn of files in `folder` whose students are no longer in the class, or have another name now.

    They stay, for they may be all that is left of these students. `names`: the students of all files there; `what` the
    files are: `results.json`; `use`: what the instructor does with the folder.
    """
    if left := sorted(set(names) - set(known)):
        listed = ", ".join(left[:MOST_NAMED]) + (" …" if len(left) > MOST_NAMED else "")
        title = f"{folder} has {what} of {count(len(left), 'student')} not in the class: {listed}."
        yield GradebookWarning(title, f"Remove them before you {use}.")

"""Contract of all exports: an option of `classroom report`, and the files that it writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.model import Gradebook, GradebookWarning, StudentMarks
from gpututor.classroom.misconceptions import Misconception
from gpututor.classroom.roster import RosterEntry, match_students, refusal
from gpututor.errors import UsageError
from gpututor.files import write_atomically
from gpututor.grading.report_text import count

_MOST_NAMED = 10


@dataclass(frozen=True)
class ExportRequest:
    """A gradebook and the path to write it to."""

    gradebook: Gradebook
    folder: ClassFolder
    path: Path
    roster: Path | None = None
    """A table that the platform exported."""
    misconceptions: Sequence[Misconception] = ()


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
    """Writes it, and returns warnings for the instructor. Raises `UsageError`."""
    file_name: str = ""
    """Name of each student's file if the export is a folder; empty if it is one file."""
    roster_help: str = ""
    """A line about `--OPTION-roster FILE`; empty if the export takes no roster."""
    needs_names: bool = False
    """True if the platform finds students by their ids, so that pseudonyms must not replace them."""
    layout: str = ""
    """Layout of the only classes that `--all` writes it for without a roster; empty for every class."""

    @property
    def name(self) -> str:
        """Attribute of the parsed arguments."""
        return self.option.replace("-", "_")

    @property
    def metavar(self) -> str:
        return "DIR" if self.file_name else "FILE"


def text_writer(text: Callable[[Gradebook], str]) -> Callable[[ExportRequest], Iterable[GradebookWarning]]:
    """Return the `write` of an export that is one text without warnings."""

    def write(request: ExportRequest) -> Iterable[GradebookWarning]:
        write_text(request.path, text(request.gradebook))
        return ()

    return write


def roster_writer(
    text: Callable[[Gradebook, Path | None], tuple[str, Sequence[GradebookWarning]]],
) -> Callable[[ExportRequest], Iterable[GradebookWarning]]:
    """Return the `write` of an export that fills in a roster."""

    def write(request: ExportRequest) -> Iterable[GradebookWarning]:
        content, warnings = text(request.gradebook, request.roster)
        write_text(request.path, content)
        return warnings

    return write


def write_text(path: Path, text: str | bytes) -> None:
    """Write a file whole or not at all. Raises `UsageError`."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})", "Name another place.") from error


def known_to(platform: str, gradebook: Gradebook) -> list[StudentMarks]:
    """Return the marks of students whose numbers at this platform are known: `canvas` or `moodle`."""
    is_its = gradebook.class_.layout == platform
    return [marks for marks in gradebook.students if is_its and marks.student.platform_id]


def matching_marks(
    people: Sequence[RosterEntry], gradebook: Gradebook, platform: str, path: Path
) -> tuple[dict[int, StudentMarks], list[GradebookWarning]]:
    """Return the marks of the people in a platform's file, by their positions in it, and warnings."""
    students = [marks.student for marks in gradebook.students]
    matches = match_students(people, students, layout=gradebook.class_.layout, platform=platform)
    refused = (refusal(path, people[position].name, students[at].called) for position, at in matches.refused)
    marks = {position: gradebook.students[at] for position, at in matches.students.items()}
    return marks, [GradebookWarning(*words) for words in refused]


def left_out(platform: str, gradebook: Gradebook, known: Collection[str], advice: str) -> list[GradebookWarning]:
    """Warn of students whose ids are not in `known`, because they are not in the platform's file."""
    ids = [marks.student.id for marks in gradebook.students if marks.student.id not in known]
    title = f"Not in the {platform} file: {count(len(ids), 'student')} ({some(ids)})."
    return [GradebookWarning(title, advice)] if ids else []


def left_over(
    folder: Path, names: Iterable[str], known: Collection[str], what: str, use: str
) -> Iterator[GradebookWarning]:
    """Warn of files in `folder` whose students are no longer in the class, or have another name now.

    The files stay, because they may be all that is left of these students. `names`: the students of all files there;
    `what`: the kind of files; `use`: the instructor's next step with the folder.
    """
    if left := sorted(set(names) - set(known)):
        title = f"{folder} has {what} of {count(len(left), 'student')} not in the class: {some(left)}."
        yield GradebookWarning(title, f"Remove them before you {use}.")


def some(names: Sequence[str]) -> str:
    """Return the first names, with dots if there are more."""
    return ", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")

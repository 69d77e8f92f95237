"""The big class in each layout."""

from __future__ import annotations

import zipfile
from pathlib import Path

from gpututor.classroom.intake.layouts import METADATA
from tests.support.big_class import BigClass, Submission

_SPACES = {
    "folders": "{student}",
    "gradescope": "submission_{student}",
    "moodle": "Kim Roe_{student}_assignsubmission_file_",
}
"""Folders of students, in layouts that have them."""
_SUBMITTED = """\
submission_{student}:
  :submitters:
  - :name: Kim Roe
    :sid: '{student}'
    :email: kim{student}@example.org
  :created_at: 2026-03-01 12:00:00.861687000 Z
  :history: []
"""


def lay_out(big: BigClass, layout: str, folder: Path) -> Path:
    """Write the class to the new `folder`. The students' ids are the same in each layout."""
    folder.mkdir(parents=True)
    zipped: dict[str, list[Submission]] = {}
    for number, submission in enumerate(big.submissions):
        if submission.student in big.zipped and layout != "files":
            zipped.setdefault(submission.student, []).append(submission)
        else:
            _write(folder / _place(submission, layout, number), submission)
    for student, submissions in zipped.items():
        _zip(folder / _zip_place(student, layout), submissions)
    if layout == "gradescope":
        students = dict.fromkeys(submission.student for submission in big.submissions)
        (folder / METADATA).write_text("".join(_SUBMITTED.format(student=student) for student in students))
    return folder


def _place(submission: Submission, layout: str, number: int) -> str:
    if layout == "canvas":
        again = f"-{submission.attempt - 1}" if submission.attempt > 1 else ""
        return f"roekim_{submission.student}_{90_000 + number}_{submission.exercise.slug}{again}.py"
    if layout == "files":
        copy = f" ({submission.attempt - 1})" if submission.attempt > 1 else ""
        return f"{submission.exercise.slug}/{submission.student}{f'/solution{copy}' if copy else ''}.py"
    return f"{_SPACES[layout].format(student=submission.student)}/{_inside(submission)}"


def _inside(submission: Submission) -> str:
    """Return the name that the student gives the file."""
    exercise = submission.exercise
    if submission.attempt > 1:
        return f"{exercise.slug} ({submission.attempt - 1}).py"
    names = (
        f"{exercise.folder.parent.name}/{exercise.folder.name}.py",
        f"{exercise.slug}.py",
        f"homework/{exercise.label}.py",
    )
    return names[int(submission.student) % len(names)]


def _zip_place(student: str, layout: str) -> str:
    if layout == "canvas":
        return f"roekim_{student}_{student}_homework.zip"
    space = _SPACES[layout].format(student=student)
    return f"{space}.zip" if layout == "folders" else f"{space}/homework.zip"


def _write(path: Path, submission: Submission) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if submission.is_misplaced:
        path.symlink_to("/etc/passwd")
    else:
        path.write_bytes(submission.content)


def _zip(path: Path, submissions: list[Submission]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for submission in submissions:
            name = f"../../{submission.exercise.slug}.py" if submission.is_misplaced else _inside(submission)
            archive.writestr(name, submission.content)

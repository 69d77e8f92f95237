"""The big class as instructors get it: a folder in each of the layouts that are understood."""

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
"""The folder of a student, where they have one."""
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
    """Write the class into `folder`, which is made. The students' ids are the same in each layout."""
    folder.mkdir(parents=True)
    zipped: dict[str, list[Submission]] = {}
    for number, one in enumerate(big.submissions):
        if one.student in big.zipped and layout != "files":
            zipped.setdefault(one.student, []).append(one)
        else:
            _write(folder / _place(one, layout, number), one)
    for student, submissions in zipped.items():
        _zip(folder / _zip_place(student, layout), submissions)
    if layout == "gradescope":
        students = dict.fromkeys(one.student for one in big.submissions)
        (folder / METADATA).write_text("".join(_SUBMITTED.format(student=student) for student in students))
    return folder


def _place(one: Submission, layout: str, number: int) -> str:
    if layout == "canvas":
        again = f"-{one.attempt - 1}" if one.attempt > 1 else ""
        return f"roekim_{one.student}_{90_000 + number}_{one.exercise.slug}{again}.py"
    if layout == "files":
        copy = f" ({one.attempt - 1})" if one.attempt > 1 else ""
        return f"{one.exercise.slug}/{one.student}{f'/solution{copy}' if copy else ''}.py"
    return f"{_SPACES[layout].format(student=one.student)}/{_inside(one)}"


def _inside(one: Submission) -> str:
    """What a student calls the file."""
    exercise = one.exercise
    if one.attempt > 1:
        return f"{exercise.slug} ({one.attempt - 1}).py"
    names = (
        f"{exercise.folder.parent.name}/{exercise.folder.name}.py",
        f"{exercise.slug}.py",
        f"homework/{exercise.label}.py",
    )
    return names[int(one.student) % len(names)]


def _zip_place(student: str, layout: str) -> str:
    if layout == "canvas":
        return f"roekim_{student}_{student}_homework.zip"
    space = _SPACES[layout].format(student=student)
    return f"{space}.zip" if layout == "folders" else f"{space}/homework.zip"


def _write(path: Path, one: Submission) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if one.is_misplaced:
        path.symlink_to("/etc/passwd")
    else:
        path.write_bytes(one.content)


def _zip(path: Path, submissions: list[Submission]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in submissions:
            archive.writestr(f"../../{one.exercise.slug}.py" if one.is_misplaced else _inside(one), one.content)

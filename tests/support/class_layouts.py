"""Classes laid out in folders and zips."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpututor.classroom.submissions import Class

Content = bytes | str


Reader = Callable[..., Class]


def zipped(files: Mapping[Any, Content]) -> bytes:
    """Return a zip with these entries, by names or `ZipInfo`s."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def lay_out(folder: Path, files: Mapping[str, Content]) -> Path:
    """Write files below a folder, which may be there already; return the folder."""
    folder.mkdir(exist_ok=True)
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def hand_in(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write each student's solution of the first exercise of a tiny course; return the folder."""
    return lay_out(folder, {f"{student}/twice_1_1.py": text for student, text in texts.items()})


def facts(class_: Class) -> list[tuple[str, str]]:
    """Return the student and exercise of each submission: `("kim", "one_big_copy")`."""
    return [(file.student, file.exercise.partition("/")[2]) for file in class_.submissions]


def phrases(reasons: Mapping[str, str], expected: Mapping[str, str]) -> dict[str, str]:
    """Return each source's expected phrase if its reason has it, else the whole reason."""
    wanted = {source: expected.get(source, reason) for source, reason in reasons.items()}
    return {source: wanted[source] if wanted[source] in reason else reason for source, reason in reasons.items()}


def reasons(class_: Class) -> dict[str, str]:
    """Return why each source is rejected or not graded."""
    return {file.source: file.refusal for file in class_.submissions if file.refusal} | {
        file.source: file.why for file in class_.unmatched
    }

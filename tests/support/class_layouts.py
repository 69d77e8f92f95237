"""Classes laid out in folders and zips."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
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


def facts(class_: Class) -> list[tuple[str, str]]:
    """Return the student and exercise of each submission: `("kim", "one_big_copy")`."""
    return [(file.student, file.exercise.partition("/")[2]) for file in class_.handed_in]


def phrases(reasons: Mapping[str, str], expected: Mapping[str, str]) -> dict[str, str]:
    """Return each source's expected phrase if its reason has it, else the whole reason."""
    wanted = {source: expected.get(source, reason) for source, reason in reasons.items()}
    return {source: wanted[source] if wanted[source] in reason else reason for source, reason in reasons.items()}


def reasons(class_: Class) -> dict[str, str]:
    """Return why each source is refused or not graded."""
    return {file.source: file.refusal for file in class_.handed_in if file.refusal} | {
        file.source: file.why for file in class_.unmatched
    }

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
    """A zip with these entries: by name, or by a `ZipInfo`."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def facts(found: Class) -> list[tuple[str, str]]:
    """Who handed in what: `("kim", "one_big_copy")`."""
    return [(one.student, one.exercise.partition("/")[2]) for one in found.handed_in]


def reasons(found: Class) -> dict[str, str]:
    """Why each source is refused or not graded."""
    return {one.source: one.refusal for one in found.handed_in if one.refusal} | {
        one.source: one.why for one in found.unmatched
    }

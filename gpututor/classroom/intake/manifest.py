"""What `gpututor pack` writes into a student's zip about it."""

from __future__ import annotations

import json
from typing import BinaryIO

from gpututor.classroom.intake.entries import Packed

MANIFEST = "gpututor-pack.json"
PACK_ENDS = "-pack"
"""What the name of the zip ends with, where nobody chose another."""
_LONGEST = 64 << 10


def manifest_of(stream: BinaryIO) -> Packed | None:
    """None for what is no manifest; what it says is never needed. Whatever `stream` raises passes through."""
    content = stream.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        return None
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    course, student, exercises = data.get("course"), data.get("student"), data.get("exercises")
    return Packed(
        course=course if isinstance(course, str) else "",
        student=student if isinstance(student, str) else "",
        exercises=tuple(_pairs(exercises)),
    )


def _pairs(exercises: object) -> list[tuple[str, str]]:
    """From `{"05_keep…/01_one_big_copy.py": "keep…/one_big_copy"}`."""
    if not isinstance(exercises, dict):
        return []
    return [(path, key) for path, key in exercises.items() if isinstance(key, str)]

"""Descriptions of an exercise's checks, which the judge sends to its client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpututor.errors import CourseError
from gpututor.json_dataclasses import read


@dataclass(frozen=True)
class CheckDescription:
    """A check of an exercise."""

    name: str
    kind: str
    """`values`, `structure` or `other`."""
    points: float
    sentences: tuple[str, ...]
    """The check's different sentences in the scenarios on virtual GPUs; empty if it applies in none of them."""
    depends_on_device: bool
    """True if it applies on a virtual GPU and not on a real one, or the other way round."""


def description_to_json(checks: Sequence[CheckDescription]) -> dict[str, Any]:
    return {"checks": [asdict(check) for check in checks]}


def description_from_json(data: dict[str, Any]) -> tuple[CheckDescription, ...]:
    """Read what `description_to_json` returned. Raises the judge's `CourseError`, or `ValueError` for anything else."""
    if "title" in data:
        raise CourseError(str(data["title"]), str(data.get("advice", "")))
    checks = data.get("checks")
    if not isinstance(checks, list):
        raise ValueError("checks must be a list")
    return tuple(read(CheckDescription, check, f"checks[{position}]") for position, check in enumerate(checks))

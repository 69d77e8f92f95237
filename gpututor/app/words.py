"""The words and glyphs that the app uses for states: always both, so that colour is never needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpututor.course.exercise import Exercise
from gpututor.grading.report import Outcome, Report, Status

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory

GLYPHS = {Status.PASSED: "✓", Status.FAILED: "✗", Status.NOT_RUN: "○"}


def mark(status: Status) -> str:
    """`✓ passed`"""
    return f"{GLYPHS[status]} {status.value}"


def short_path(path: Path) -> str:
    """The path as people write it, from `~` where it is below the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def count(number: int, one: str, many: str = "") -> str:
    """`1 check`, `3 checks`"""
    return f"{number} {one if number == 1 else many or one + 's'}"


def device_words(device: str) -> str:
    """The device for people; what is only modelled says so."""
    if "virtual" in device and "modelled" not in device:
        return f"{device} (modelled)"
    return device


def planned_device(exercise: Exercise, inventory: Inventory | None) -> str:
    """Where a run of `exercise` will happen: the first real device that it declares, else the virtual GPU."""
    for device in inventory.devices if inventory else ():
        if device.kind != "cpu" and device.kind in exercise.devices:
            return f"{device.name}, {device.description}"
    return f"virtual {exercise.scenarios[0].gpu} (modelled)"


_OUTCOME_TITLES = {
    Outcome.PASSED: "✓ Passed",
    Outcome.FAILED: "✗ Failed",
    Outcome.ERROR: "✗ Stopped by an error",
    Outcome.TIMEOUT: "✗ Took too long",
    Outcome.OUT_OF_MEMORY: "✗ Out of memory",
    Outcome.CRASHED: "✗ Crashed",
    Outcome.TOO_SLOW: "✗ Too slow",
    Outcome.INCONCLUSIVE: "○ Inconclusive",
    Outcome.NEEDS_REVIEW: "○ Needs review",
    Outcome.NOT_GRADABLE_HERE: "○ Not gradable here",
    Outcome.REJECTED: "✗ Rejected",
    Outcome.INTERNAL_ERROR: "! The grader broke",
}


def outcome_line(report: Report) -> str:
    """`✗ Failed: 1 of 4 checks; 2 not run`"""
    title = _OUTCOME_TITLES[report.outcome]
    total = len(report.verdicts)
    if not total:
        return title
    by_status = {status: sum(1 for verdict in report.verdicts if verdict.status is status) for status in Status}
    if report.outcome is Outcome.PASSED:
        return f"{title}: all {count(total, 'check')}" if total > 1 else title
    parts = [f"{by_status[Status.FAILED]} of {count(total, 'check')} failed"]
    if by_status[Status.NOT_RUN]:
        parts.append(f"{by_status[Status.NOT_RUN]} not run")
    return f"{title}: {', '.join(parts)}"

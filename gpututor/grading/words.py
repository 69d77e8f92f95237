"""The words and glyphs for states and outcomes, the same in the app and in plain verbs: never colour alone."""

from __future__ import annotations

from gpututor.grading.report import Outcome, Report, Status

GLYPHS = {
    Status.PASSED: "✓",
    Status.FAILED: "✗",
    Status.TOO_SLOW: "✗",
    Status.INCONCLUSIVE: "○",
    Status.NEEDS_REVIEW: "○",
    Status.NOT_RUN: "○",
}

OUTCOME_TITLES = {
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


def mark(status: Status) -> str:
    """`✓ passed`"""
    return f"{GLYPHS[status]} {status.value}"


def count(number: int, one: str, many: str = "") -> str:
    """`1 check`, `3 checks`"""
    return f"{number} {one if number == 1 else many or one + 's'}"


def device_words(device: str) -> str:
    """The device for people; what is only modelled says so."""
    is_modelled = "virtual" in device and not device.startswith("no ")
    return f"{device} (modelled)" if is_modelled and "modelled" not in device else device


def outcome_line(report: Report) -> str:
    """`✗ Failed: 1 of 4 checks failed, 2 not run`"""
    title = OUTCOME_TITLES[report.outcome]
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

"""Outcomes of gradings and results of checks, in a word or two.

Lists and headings need no more of a report: its classes, which take 5 ms to import, are in `report`.
"""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """Result of a grading in a word or two."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    TOO_SLOW = "too slow"
    INCONCLUSIVE = "inconclusive"
    NEEDS_REVIEW = "needs review"
    NOT_GRADABLE_HERE = "not gradable here"
    REJECTED = "rejected"
    INTERNAL_ERROR = "internal error"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]

    @property
    def is_of_the_submission(self) -> bool:
        """True if the outcome is a result of the submission; other outcomes are about the grading."""
        return self.exit_code in (0, 1)


_EXIT_CODES = dict.fromkeys(Outcome, 1) | {
    Outcome.PASSED: 0,
    Outcome.REJECTED: 2,
    Outcome.INCONCLUSIVE: 3,
    Outcome.NEEDS_REVIEW: 3,
    Outcome.NOT_GRADABLE_HERE: 3,
    Outcome.INTERNAL_ERROR: 4,
}


class Status(StrEnum):
    """Result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    TOO_SLOW = "too slow"
    """Right, but slower than the author allows."""
    INCONCLUSIVE = "inconclusive"
    """Not decided, because this machine is too noisy or cannot measure it: neither a pass nor a failure."""
    NEEDS_REVIEW = "needs review"
    """Figures that contradict each other, or an unforeseen result: a person must decide. No accusation."""
    NOT_RUN = "not run"
    """Skipped, because the run failed, or a check that this check needs did not pass."""
    HELD_BACK = "held back"
    """Passed, but the values are wrong: a wrong result earns no points for its cost."""

    @property
    def is_failure(self) -> bool:
        return self in (Status.FAILED, Status.TOO_SLOW)

    @property
    def is_finding(self) -> bool:
        """True if something is wrong, or a person must look: the first finding is shown to the learner."""
        return self not in (Status.PASSED, Status.NOT_RUN, Status.HELD_BACK)

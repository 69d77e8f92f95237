"""What is asked of all attempts together, and what else is noted of a learner's way: solutions seen, new beginnings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gpututor.grading.report import Outcome, Status
from gpututor.progress.store import ProgressStore

_SOLUTION, _REPEAT = "solution opened ", "begun again "
_FAILURES = (Status.FAILED, Status.TOO_SLOW)


@dataclass(frozen=True)
class FailedCheck:
    """A check that said no."""

    check: str
    """Its name, such as `transfers`."""
    sentence: str


@dataclass(frozen=True)
class Try:
    """One counted attempt, without its whole report."""

    id: int
    """Grows with time."""
    exercise: str
    passed: bool
    failed: tuple[FailedCheck, ...]
    measured: tuple[str, ...]
    """The figures of its checks, such as those of a speed check."""


def tries(store: ProgressStore) -> list[Try]:
    """Every counted attempt at any exercise, oldest first; 50 µs each. Raises `ProgressError`."""
    rows = store.rows("SELECT id, exercise, outcome, report FROM attempts WHERE counted ORDER BY id")
    return [_try(*row) for row in rows]


def _try(id: int, exercise: str, outcome: str, report: str) -> Try:
    """Reads no more than it needs: what a newer gpututor wrote counts as an attempt all the same."""
    failed: list[FailedCheck] = []
    measured: list[str] = []
    for verdict in _verdicts(report):
        if verdict.get("status") in _FAILURES:
            failed.append(FailedCheck(str(verdict.get("check")), str(verdict.get("sentence"))))
        if text := verdict.get("measured"):
            measured.append(str(text))
    return Try(id, exercise, outcome == Outcome.PASSED, tuple(failed), tuple(measured))


def _verdicts(report: str) -> list[dict[str, Any]]:
    try:
        verdicts = json.loads(report)["verdicts"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [verdict for verdict in verdicts if isinstance(verdict, dict)] if isinstance(verdicts, list) else []


def note_solution_opened(store: ProgressStore, key: str) -> None:
    """The learner asked for the solution before a pass."""
    _note(store, _SOLUTION + key)


def solutions_opened(store: ProgressStore) -> frozenset[str]:
    """The keys of the exercises whose solution was opened before a pass."""
    return frozenset(_noted(store, _SOLUTION))


def note_begun_again(store: ProgressStore, key: str) -> None:
    """The learner starts the exercise anew: what was before does not count against it any more."""
    _note(store, _REPEAT + key)


def begun_again(store: ProgressStore) -> dict[str, int]:
    """By exercise key: the id of the last attempt before the learner started it anew."""
    return _noted(store, _REPEAT)


def _note(store: ProgressStore, name: str) -> None:
    statement = "INSERT OR REPLACE INTO choices (name, value) SELECT ?, COALESCE(MAX(id), 0) FROM attempts"
    store.rows(statement, name)


def _noted(store: ProgressStore, prefix: str) -> dict[str, int]:
    rows = store.rows("SELECT name, value FROM choices WHERE substr(name, 1, ?) = ?", len(prefix), prefix)
    return {name.removeprefix(prefix): int(value) for name, value in rows if str(value).isdigit()}

"""Gradescope's `submission_metadata.json`: the students, the due date with extensions, and earlier submissions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from gpututor.classroom.folder import read_json
from gpututor.classroom.gradebook.exports.gradescope import failed_results
from gpututor.classroom.intake.gradescope_metadata import as_utc
from gpututor.classroom.rules import Rules
from gpututor.errors import GradingError
from gpututor.grading.report_text import count
from gpututor.translation import Catalog

_KEPT = ("tests", "leaderboard")
"""Keys of earlier results that a submission beyond the limit shows again."""


@dataclass(frozen=True)
class EarlierSubmission:
    """A submission of the same students before this one, at which the autograder did not fail."""

    score: float | None
    """None while it is being graded."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """Content of the results.json; empty if Gradescope leaves it out, as for all submissions but the last."""


@dataclass(frozen=True)
class SubmissionMetadata:
    """The fields of `submission_metadata.json` that affect a mark."""

    name: str = ""
    email: str = ""
    created_at: str = ""
    """ISO 8601, UTC; empty if unknown."""
    due: datetime | None = None
    """Due date of the submission's students, with their extensions."""
    usual_due: datetime | None = None
    """Due date without extensions."""
    students: int = 1
    """Number of students: more than 1 for a group. `name` and `email` are those of the first."""
    addresses: tuple[str, ...] = ()
    """Addresses of all students, as far as they are known."""
    earlier: tuple[EarlierSubmission, ...] = ()
    """Earlier submissions in the order of time."""

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return len(self.earlier) + 1


def read_metadata(path: Path) -> SubmissionMetadata:
    """Read the metadata; without a file, the submission is on time. Raises `UsageError` for a malformed file."""
    advice = "Gradescope writes this file; docs/classroom/gradescope.md shows what gpututor reads of it."
    return read_json(path, _metadata, advice) or SubmissionMetadata()


def _metadata(values: Any) -> SubmissionMetadata:
    if not isinstance(values, dict):
        raise ValueError("expected an object")
    users = _tables(values.get("users"))
    first = users[0] if users else {}
    usual = _due(values.get("assignment"))
    # A student with an extension has an assignment of their own. A group has the latest date of its students.
    dates = [_due(user.get("assignment")) or usual for user in users] or [usual]
    name, email = (_text(first.get(key)) for key in ("name", "email"))
    created_at = as_utc(str(values.get("created_at") or ""))
    return SubmissionMetadata(
        name=name,
        email=email,
        created_at=created_at,
        due=max(filter(None, dates), default=None),
        usual_due=usual,
        students=max(len(users), 1),
        addresses=tuple(filter(None, (_text(user.get("email")) for user in users))),
        earlier=tuple(_earlier(_tables(values.get("previous_submissions")), created_at)),
    )


def _text(value: object) -> str:
    """Return a text without halves of characters, which JSON can have, but no file can store."""
    return str(value or "").encode(errors="ignore").decode()


def _tables(items: object) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _due(assignment: object) -> datetime | None:
    text = assignment.get("due_date") if isinstance(assignment, dict) else None
    if text is None:
        return None
    if not (utc := as_utc(str(text))):
        raise ValueError(f"due_date: expected a time with a zone, not {str(text)[:60]!r}")
    return datetime.fromisoformat(utc)


def _earlier(previous: list[dict[str, Any]], created_at: str) -> list[EarlierSubmission]:
    """Return the previous submissions. If this one is graded again, later ones may be among them: leave them out."""
    times = [as_utc(str(table.get("submission_time") or "")) for table in previous]
    known = [
        (at, table) for at, table in zip(times, previous, strict=True) if not at or not created_at or at <= created_at
    ]
    known.sort(key=lambda pair: pair[0])
    submissions = []
    for _, table in known:
        score, results = _score(table.get("score")), table.get("results")
        # Gradescope marks failures, which are not the students' fault. Its old metadata only leave the score out.
        if not table.get("autograder_error", score is None):
            submissions.append(EarlierSubmission(score, results if isinstance(results, dict) else {}))
    return submissions


def _score(value: object) -> float | None:
    """Return a score, which Gradescope may write as text."""
    try:
        score = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        score = math.nan
    return score if math.isfinite(score) else None


def results_beyond_limit(metadata: SubmissionMetadata, limit: int, rules: Rules, say: Catalog) -> dict[str, Any]:
    """Return the results of a submission after the first `limit` attempts: the points of the attempt that counts.

    Raises `GradingError` while one of these is being graded.
    """
    scores = [earlier.score for earlier in metadata.earlier[:limit]]
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        raise GradingError(
            f"Attempt {scores.index(None) + 1} has no points yet, so attempt {metadata.attempt} has none either.",
            "Run the autograder again as soon as the earlier attempt has points.",
        )
    place = known.index(max(known)) if rules.attempts == "best" else limit - 1
    attempts = count(limit, "attempt counts", "attempts count")
    words = (
        f"At most {attempts}: attempt {metadata.attempt} was not graded.",
        f"The points are those of attempt {place + 1}.",
    )
    # An earlier attempt beyond the limit repeats the texts of the attempt that counts.
    last = metadata.earlier[-1].results if metadata.attempt > limit + 1 else {}
    shown = metadata.earlier[place].results or last
    kept = {key: shown[key] for key in _KEPT if isinstance(shown.get(key), list)}
    return {**failed_results(" ".join(map(say, words))), **kept, "score": known[place]}

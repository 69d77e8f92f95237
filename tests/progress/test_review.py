"""Exercises worth repeating, mistakes and best times, from stored attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date
from pathlib import Path
from unittest.mock import ANY

import pytest

from gpututor.checks.speed import modelled_figures
from gpututor.grading.events import GradeRequest
from gpututor.progress.review import best_times, mistakes, practice, to_repeat
from gpututor.progress.store import AttemptSummary, ExerciseProgress, FailedCheck, ProgressStore
from tests.support.scripted_client import failure, report, verdict

ORDER = ("a/one", "a/two", "b/three")


def request_for(exercise: str) -> GradeRequest:
    lesson, _, name = exercise.partition("/")
    return GradeRequest(f"/course/01_{lesson}/01_{name}", "x = 1", "x.py")


def attempt(
    id: int, exercise: str, passed: bool = False, *checks: str, measured: tuple[str, ...] = ()
) -> AttemptSummary:
    return AttemptSummary(
        id, exercise, passed, tuple(FailedCheck(check, f"About {check}") for check in checks), measured
    )


def reasons(
    *attempts: AttemptSummary, solutions: tuple[str, ...] = (), again: dict[str, int] | None = None, **hints: int
) -> dict[str, tuple[str, ...]]:
    progress = {f"a/{name}": ExerciseProgress(1, True, used) for name, used in hints.items()}
    return {each.exercise: each.reasons for each in to_repeat(attempts, progress, solutions, again or {}, ORDER)}


def test_reasons_to_repeat_are_named_in_order_until_an_unaided_repeat() -> None:
    reviews = reasons(
        *(attempt(number, "a/one") for number in range(3)),
        attempt(3, "a/one", True),
        attempt(4, "a/two", True),
        attempt(5, "b/three"),
        two=2,
    )
    assert list(reviews) == ["b/three", "a/one", "a/two"]
    unfinished, passed, hinted = (reason for (reason,) in reviews.values())
    assert "not passed" in unfinished
    assert "3 failures" in passed
    assert hinted == "2 hints"
    reviews = reasons(attempt(1, "a/one", True), attempt(2, "a/two", True), solutions=("a/two",), one=3, two=1)
    assert reviews == {"a/two": (ANY, "1 hint"), "a/one": ("3 hints",)}
    assert reasons(attempt(1, "a/one", True), attempt(2, "a/two"), attempt(3, "a/two", True)) == {}
    assert reasons(solutions=("a/one",), two=2) == {}, "hints without an attempt"
    assert reasons(attempt(1, "gone/away")) == {}, "not in the course"
    before = [attempt(number, "a/one") for number in range(1, 5)]
    again = {"a/one": 4}
    assert reasons(*before, attempt(6, "a/one"), attempt(7, "a/one", True), again=again, one=3) == {}
    stays = reasons(*before, *(attempt(number, "a/one") for number in (6, 7)), again=again)
    assert list(stays) == ["a/one"]
    ((reason,),) = reasons(*before[:3], attempt(4, "a/one", True), attempt(6, "a/one"), again=again).values()
    assert reason.startswith("passed before")
    late = [attempt(number, "a/one") for number in (6, 7, 8)]
    assert reasons(*before, *late, attempt(9, "a/one", True), again=again) == {"a/one": ("passed after 3 failures",)}


def test_mistakes_count_once_per_attempt_and_times_of_passes() -> None:
    counted = mistakes(
        [
            attempt(1, "a/one", False, "transfers", "transfers"),
            attempt(2, "a/two", False, "transfers"),
            attempt(3, "a/two", False, "transfers", "parity"),
        ]
    )
    assert [(each.check, each.times, each.sentence) for each in counted] == [
        ("transfers", 3, "About transfers"),
        ("parity", 1, "About parity"),
    ]
    assert counted[0].exercises == ("a/two", "a/one")
    slow, fast = modelled_figures(4e-3, 2e-3, 1), modelled_figures(1e-3, 2e-3, 1)
    times = best_times(
        [
            attempt(1, "a/one", True, measured=(fast,)),
            attempt(2, "a/one", True, measured=(slow, "8 MiB at the peak")),
            attempt(3, "a/two", False, measured=(fast,)),
        ]
    )
    assert times == {"a/one": fast}
    same = modelled_figures(2e-3, 2e-3, 1)
    assert best_times([attempt(1, "a/one", True, measured=(same,))]) == {}, "as slow as the baseline"


def test_practice_counts_days_first_tries_and_time_without_breaks() -> None:
    def at(id: int, exercise: str, time: str, passed: bool = False) -> AttemptSummary:
        return replace(attempt(id, exercise, passed), started_at=time)

    made = practice(
        [
            at(1, "a/one", "2026-03-01T23:50:00+00:00"),
            at(2, "a/one", "2026-03-01T23:58:00+00:00", passed=True),
            at(3, "a/two", "2026-03-02T00:03:00+00:00", passed=True),
            at(4, "a/one", "2026-03-03T10:00:00+00:00"),
            at(5, "a/two", "not a time"),
            at(6, "b/three", "2026-03-05T10:00:00+00:00"),
        ],
        UTC,
    )
    assert dict(made.seconds) == {"a/one": 8 * 60, "a/two": 5 * 60, "b/three": 0}, "a night is no practice"
    assert made.first_tries == 1
    days = [made.streak(date(2026, 3, day)) for day in (3, 4, 5, 7)]
    assert days == [3, 3, 1, 0], "today counts once there is an attempt"


@pytest.fixture
def store(tmp_path: Path) -> ProgressStore:
    return ProgressStore(tmp_path / "progress.sqlite3")


def test_the_store_summarises_all_attempts(store: ProgressStore) -> None:
    for exercise, checks in (("x/a", [verdict("loads"), failure()]), ("x/b", [verdict("speed", measured="0.50 ×")])):
        store.record(report(request_for(exercise), *checks))
    first, second = store.attempt_summaries()
    assert first.failed == (FailedCheck("placement", "The check called placement holds"),)
    assert (first.exercise, first.passed) == ("x/a", False)
    assert (second.passed, second.measured) == (True, ("0.50 ×",))
    assert first.id < second.id


def test_an_unreadable_report_still_counts_as_an_attempt(store: ProgressStore) -> None:
    for text in ("{", "[]", '{"verdicts": 3}', '{"verdicts": [7]}'):
        store.rows("INSERT INTO attempts (exercise, outcome, counted, report) VALUES ('x/a', 'passed', 1, ?)", text)
    assert [(summary.passed, summary.failed) for summary in store.attempt_summaries()] == [(True, ())] * 4


def test_opened_solutions_and_restarts_are_stored(store: ProgressStore) -> None:
    store.mark_begun_again("x/a")
    assert store.begun_again() == {"x/a": 0}
    store.record(report(request_for("x/a"), failure()))
    store.mark_solution_opened("x/a")
    store.mark_begun_again("x/a")
    assert store.begun_again() == {"x/a": 1}
    assert store.solutions_opened() == {"x/a"}
    assert store.current_exercise() is None

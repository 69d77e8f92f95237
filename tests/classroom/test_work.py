"""The gradings that are left: their order, what is tried again, and what is given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.classroom.work_queue import MOST_ATTEMPTS, MOST_BROKEN, Attempt, Progress, WorkQueue
from gpututor.errors import NotGradableHere
from gpututor.grading.report import Outcome
from tests.support.fake_judges import job_of


def work_of(folder: Path, exercises: dict[str, int]) -> WorkQueue:
    return WorkQueue(
        [job_of(folder, name, f"{name} {each}") for name, number in exercises.items() for each in range(number)]
    )


def taken(work: WorkQueue, near: str = "") -> Attempt:
    attempt = work.claim(near, wait=False)
    assert attempt is not None
    return attempt


def test_a_judge_stays_with_its_exercise_and_the_next_takes_another(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/a": 3, "l/b": 2})
    first = taken(work)
    assert first.job.key.exercise == "l/a"  # the most are left of it
    second = taken(work)
    assert second.job.key.exercise == "l/b"
    assert taken(work, "l/a").job.key.exercise == "l/a"
    assert taken(work, "l/b").job.key.exercise == "l/b"
    assert taken(work, "l/b").job.key.exercise == "l/a"  # nothing is left of b: the rest of a
    assert work.claim(wait=False) is None
    assert not work.is_over


def test_what_broke_is_tried_again_after_all_others_and_abandoned_in_the_end(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/a": 2})
    broken = taken(work)
    work.fail(broken, "out of luck")
    other = taken(work)
    assert other.job != broken.job
    work.complete(other, Outcome.FAILED)
    for number in range(2, MOST_ATTEMPTS + 1):
        again = taken(work)
        assert again == Attempt(broken.job, number)
        work.fail(again, "out of luck")
    assert work.is_over
    assert [(trouble.key, trouble.attempts, trouble.why) for trouble in work.failures] == [
        (broken.job.key, MOST_ATTEMPTS, "out of luck")
    ]
    progress = work.progress
    assert (progress.done, progress.abandoned, progress.retried, progress.in_flight) == (1, 1, MOST_ATTEMPTS - 1, 0)


def test_of_an_exercise_that_only_breaks_the_rest_is_not_tried(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/broken": 40, "l/good": 2})
    tries = 0
    while (attempt := work.claim(wait=False)) is not None:
        tries += 1
        if attempt.job.key.exercise == "l/broken":
            work.fail(attempt, "checks.py is broken")
        else:
            work.complete(attempt, Outcome.PASSED)
    assert work.is_over
    assert tries == MOST_BROKEN + 2
    assert len(work.failures) == 40
    assert sum("Not tried" in trouble.why and trouble.attempts == 0 for trouble in work.failures) == 40 - MOST_BROKEN
    assert work.progress.outcomes == {Outcome.PASSED: 2}


def test_who_breaks_among_many_that_do_not_is_tried_to_the_end(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/a": 3 * MOST_BROKEN})
    work.complete(taken(work), Outcome.PASSED)
    tries = 0
    while (attempt := work.claim(wait=False)) is not None:
        tries += 1
        work.fail(attempt, "no luck")
    assert tries == MOST_ATTEMPTS * (3 * MOST_BROKEN - 1)


def test_what_always_breaks_keeps_nobody_who_hands_in_later_from_being_graded(tmp_path: Path) -> None:
    """When a class is gone on with, those that break may be the first of those that are left."""
    jobs = [job_of(tmp_path, "l/a", str(each)) for each in range(MOST_BROKEN + 1)]
    work = WorkQueue(jobs, working=["l/a"])
    last = work.jobs[-1]
    while (attempt := work.claim(wait=False)) is not None:
        if attempt.job == last:
            work.complete(attempt, Outcome.PASSED)
        else:
            work.fail(attempt, "It breaks.")
    assert work.progress.outcomes == {Outcome.PASSED: 1}
    assert [trouble.attempts for trouble in work.failures] == [MOST_ATTEMPTS] * MOST_BROKEN


def test_stopping_ends_those_who_wait_and_keeps_the_first_reason(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/a": 2})
    attempt = taken(work)
    work.stop(NotGradableHere("No device is left."))
    work.stop(NotGradableHere("Another reason."))
    work.release(attempt)
    assert work.claim() is None
    assert work.is_over
    assert work.failures == []
    with pytest.raises(NotGradableHere, match="No device"):
        work.raise_error()


def test_time_left_is_known_when_something_is_done() -> None:
    assert Progress(10).left_s is None
    progress = Progress(10, {Outcome.PASSED: 3, Outcome.FAILED: 1}, abandoned=1, elapsed_s=20.0, since_first_s=1.5)
    assert progress.done == 4
    assert progress.left_s == pytest.approx(2.5)

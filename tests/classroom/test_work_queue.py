"""The work queue: order, retries, and gradings that are given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.classroom.work_queue import MOST_ATTEMPTS, MOST_BROKEN, Claim, Progress, WorkQueue
from gpututor.errors import NotGradableHere
from gpututor.grading.report import Outcome
from tests.support.fake_judges import job_of


def work_of(folder: Path, exercises: dict[str, int]) -> WorkQueue:
    return WorkQueue(
        [job_of(folder, name, f"{name} {each}") for name, number in exercises.items() for each in range(number)]
    )


def claim(work: WorkQueue, near: str = "") -> Claim:
    claimed = work.claim(near, wait=False)
    assert claimed is not None
    return claimed


def test_a_judge_keeps_its_exercise_and_the_next_takes_another(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/a": 3, "l/b": 2})
    first = claim(work)
    assert first.job.key.exercise == "l/a"  # the most are left of it
    second = claim(work)
    assert second.job.key.exercise == "l/b"
    assert claim(work, "l/a").job.key.exercise == "l/a"
    assert claim(work, "l/b").job.key.exercise == "l/b"
    assert claim(work, "l/b").job.key.exercise == "l/a"  # nothing is left of b: the rest of a
    assert work.claim(wait=False) is None
    assert not work.is_over


def test_a_failed_grading_is_retried_last_and_then_given_up(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/a": 2})
    broken = claim(work)
    work.fail(broken, "out of luck")
    other = claim(work)
    assert other.job != broken.job
    work.complete(other, Outcome.FAILED)
    for number in range(2, MOST_ATTEMPTS + 1):
        again = claim(work)
        assert again == Claim(broken.job, number)
        work.fail(again, "out of luck")
    assert work.is_over
    assert [(failure.key, failure.attempts, failure.why) for failure in work.failures] == [
        (broken.job.key, MOST_ATTEMPTS, "out of luck")
    ]
    progress = work.progress
    assert (progress.done, progress.abandoned, progress.retried, progress.in_flight) == (1, 1, MOST_ATTEMPTS - 1, 0)


def test_a_broken_exercise_is_given_up_early_unless_it_worked_once(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/broken": 40, "l/good": 2})
    tries = 0
    while (claimed := work.claim(wait=False)) is not None:
        tries += 1
        if claimed.job.key.exercise == "l/broken":
            work.fail(claimed, "checks.py is broken")
        else:
            work.complete(claimed, Outcome.PASSED)
    assert work.is_over
    assert tries == MOST_BROKEN + 2
    assert len(work.failures) == 40
    assert sum("Not tried" in failure.why and failure.attempts == 0 for failure in work.failures) == 40 - MOST_BROKEN
    assert work.progress.outcomes == {Outcome.PASSED: 2}
    work = work_of(tmp_path, {"l/a": 3 * MOST_BROKEN})
    work.complete(claim(work), Outcome.PASSED)
    tries = 0
    while (claimed := work.claim(wait=False)) is not None:
        tries += 1
        work.fail(claimed, "no luck")
    assert tries == MOST_ATTEMPTS * (3 * MOST_BROKEN - 1)
    # In a resumed run, the failing submissions may come first.
    jobs = [job_of(tmp_path, "l/a", str(each)) for each in range(MOST_BROKEN + 1)]
    work = WorkQueue(jobs, working=["l/a"])
    last = work.jobs[-1]
    while (claimed := work.claim(wait=False)) is not None:
        if claimed.job == last:
            work.complete(claimed, Outcome.PASSED)
        else:
            work.fail(claimed, "It breaks.")
    assert work.progress.outcomes == {Outcome.PASSED: 1}
    assert [failure.attempts for failure in work.failures] == [MOST_ATTEMPTS] * MOST_BROKEN


def test_a_stop_ends_waiting_claims_and_keeps_the_first_error(tmp_path: Path) -> None:
    work = work_of(tmp_path, {"l/a": 2})
    claimed = claim(work)
    work.stop(NotGradableHere("No device is left."))
    work.stop(NotGradableHere("Another reason."))
    work.release(claimed)
    assert work.claim() is None
    assert work.is_over
    assert work.failures == []
    with pytest.raises(NotGradableHere, match="No device"):
        work.raise_error()


def test_the_time_left_is_known_after_the_first_grading() -> None:
    assert Progress(10).left_s is None
    progress = Progress(10, {Outcome.PASSED: 3, Outcome.FAILED: 1}, abandoned=1, elapsed_s=20.0, since_first_s=1.5)
    assert progress.done == 4
    assert progress.left_s == pytest.approx(2.5)

"""The local executor: each job is graded once, whatever happens to judges and devices."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.classroom import executors
from gpututor.classroom.executors import local
from gpututor.classroom.executors.local import LocalExecutor, RealDevices, probe_devices, working_in_bubblewrap
from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import MOST_ATTEMPTS, WorkQueue
from gpututor.errors import NotGradableHere, UsageError
from gpututor.grading.events import GradeRequest, GradingEvent, WaitingForDevice
from gpututor.grading.journal import entries
from gpututor.grading.report import Outcome
from gpututor.hardware.inventory import Device
from tests.support.fake_cluster import gpu_jobs_in, jobs_in
from tests.support.fake_judges import Bench, FakeJudge, dies, dies_after_writing, hangs, job_of, on

GPUS = tuple(Device(f"cuda:{number}", "cuda", "H100") for number in range(2))


def run(jobs: Sequence[Job], bench: Bench, judges: int = 2, devices: RealDevices | None = None) -> WorkQueue:
    work = WorkQueue(jobs)
    LocalExecutor(judges, devices or RealDevices((), dict), bench).run(work)
    return work


def fail_on_first_gpu(judge: FakeJudge, request: GradeRequest) -> Outcome | None:
    return Outcome.INTERNAL_ERROR if request.device == "cuda:0" else None


def test_every_job_is_graded_once(tmp_path: Path) -> None:
    bench = Bench()
    work = run(jobs_in(tmp_path, 30), bench, judges=3)
    assert work.progress.outcomes == {Outcome.PASSED: 30}
    assert sorted(request.submission for request in bench.graded) == sorted(map(str, range(30)))
    assert len(list(entries(tmp_path / "journal"))) == 30
    assert bench.closed >= bench.made == 3


def test_on_few_cores_the_first_judge_starts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_cores", lambda: 2)
    judges: list[int] = []

    def count(judge: FakeJudge, request: GradeRequest) -> None:
        judges.append(sum(type(thread).__name__ == "_JudgeThread" for thread in threading.enumerate()))

    run(jobs_in(tmp_path, 6), Bench(count))
    assert judges[0] == 1


def test_the_job_of_a_dead_judge_is_retried_unless_its_report_exists(tmp_path: Path) -> None:
    def once(judge: FakeJudge, request: GradeRequest) -> Outcome | None:
        return dies(judge, request) if judge.bench.tries[request.submission] == 1 else None

    bench = Bench(on({"3": once}))
    work = run(jobs_in(tmp_path, 6), bench)
    assert work.progress.outcomes == {Outcome.PASSED: 6}
    assert bench.tries["3"] == 2
    assert bench.made == 3
    bench = Bench(on({"a": dies_after_writing}))
    work = run([job_of(tmp_path)], bench)
    assert work.progress.outcomes == {Outcome.FAILED: 1}
    assert bench.tries["a"] == 1


@pytest.mark.parametrize("outcome", [Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE])
def test_a_grading_without_result_is_retried_then_given_up(tmp_path: Path, outcome: Outcome) -> None:
    bench = Bench(on({"2": lambda judge, request: outcome}))
    work = run(jobs_in(tmp_path, 4), bench, judges=1)
    assert work.progress.outcomes == {Outcome.PASSED: 3}
    assert [(failure.attempts, failure.why) for failure in work.failures] == [(MOST_ATTEMPTS, f"{outcome} here")]
    assert bench.made == 1 + MOST_ATTEMPTS


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.TIMEOUT, Outcome.INCONCLUSIVE, Outcome.NEEDS_REVIEW])
def test_the_submissions_behavior_is_never_retried(tmp_path: Path, outcome: Outcome) -> None:
    bench = Bench(on({"a": lambda judge, request: outcome}))
    assert run([job_of(tmp_path)], bench).progress.outcomes == {outcome: 1}
    assert bench.tries["a"] == 1


def test_a_report_that_is_not_in_the_journal_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.fake_judges.write_entry", lambda *_: None)
    work = run([job_of(tmp_path)], Bench())
    assert [failure.attempts for failure in work.failures] == [MOST_ATTEMPTS]


def test_a_hanging_judge_is_ended_and_a_missing_submission_a_failure(tmp_path: Path) -> None:
    bench = Bench(on({"a": hangs}))
    work = run([job_of(tmp_path, timeout_s=0.01), job_of(tmp_path, text="b")], bench, judges=1)
    assert work.progress.outcomes == {Outcome.PASSED: 1}
    assert [failure.key.submission for failure in work.failures] == [job_of(tmp_path).key.submission]
    job = job_of(tmp_path)
    Path(job.submission_path).unlink()
    work = run([job], Bench())
    assert job.submission_path in work.failures[0].why


def test_a_full_disk_stops_the_work_without_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(executors, "write_atomically", full)
    jobs = jobs_in(tmp_path, 9)
    work = WorkQueue(jobs)
    bench = Bench(lambda judge, request: Outcome.INTERNAL_ERROR)  # as a judge says that cannot write
    with pytest.raises(UsageError, match="No space left on device"):
        LocalExecutor(1, RealDevices((), dict), bench).run(work)
    assert work.failures == []
    assert len(bench.graded) == 1


def test_ctrl_c_ends_all_judges_and_keeps_finished_gradings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = jobs_in(tmp_path, 6)
    bench, work = Bench(on({"4": hangs})), WorkQueue(jobs)

    def wait(timeout_s: float) -> bool:
        with bench.changed:
            if bench.changed.wait_for(lambda: len(bench.graded) == 6, 10):
                raise KeyboardInterrupt
        return False

    monkeypatch.setattr(work, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        LocalExecutor(2, RealDevices((), dict), bench).run(work)
    assert {Path(job.submission_path).read_text() for job in jobs if job.is_graded} == set("01235")
    assert work.failures == []
    assert not [thread for thread in threading.enumerate() if type(thread).__name__ == "_JudgeThread"]


def test_a_broken_device_is_replaced_by_the_other(tmp_path: Path) -> None:
    devices = RealDevices(GPUS, lambda: {"cuda:0": "an uncorrectable error", "cuda:1": ""})
    bench = Bench(fail_on_first_gpu)
    work = run(gpu_jobs_in(tmp_path, 6), bench, judges=1, devices=devices)
    assert work.progress.outcomes == {Outcome.PASSED: 6}
    assert devices.broken == {"cuda:0": "an uncorrectable error"}
    assert [request.device for request in bench.graded].count("cuda:0") == 1


def test_without_a_working_device_other_jobs_are_graded(tmp_path: Path) -> None:
    devices = RealDevices(GPUS[:1], lambda: {"cuda:0": "it fell off the bus"})
    bench = Bench(fail_on_first_gpu)
    jobs = [job_of(tmp_path, text=str(number), device="cuda H100" if number % 2 else "") for number in range(6)]
    work = run(jobs, bench, judges=1, devices=devices)
    assert work.progress.outcomes == {Outcome.PASSED: 3}
    assert len(work.failures) == 3
    assert all("it fell off the bus" in failure.why for failure in work.failures)
    assert [request.device for request in bench.graded].count("cuda:0") == 1


class WaitsFirst(FakeJudge):
    """A judge that waits for its device."""

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
        yield WaitingForDevice(request.device or "")
        yield from super().grade(request)


@pytest.mark.parametrize("failure", ["", "an uncorrectable error"])
def test_a_device_is_probed_after_a_long_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str) -> None:
    monkeypatch.setattr(local, "LONGEST_WAIT_S", 0.0)
    devices = RealDevices(GPUS, lambda: {"cuda:0": failure, "cuda:1": ""})
    bench, messages = Bench(), list[str]()
    work = WorkQueue([job_of(tmp_path, device="cuda H100")])
    LocalExecutor(1, devices, lambda: WaitsFirst(bench, 1), messages.append).run(work)
    assert work.progress.outcomes == {Outcome.PASSED: 1}
    assert "cuda:0" in messages[0]
    assert [request.device for request in bench.graded] == ["cuda:1" if failure else "cuda:0"]
    assert devices.broken == ({"cuda:0": failure} if failure else {})


def test_an_unkillable_probe_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PROBE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(local, "_EXIT_TIMEOUT_S", 0.01)
    left: list[int] = []
    monkeypatch.setattr(local, "kill_tree", left.append)  # as if a driver blocked the process
    monkeypatch.setattr(local, "python_module", lambda name: ["sleep", "60"])
    try:
        assert probe_devices("process") == {}
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_busy_machine_is_named_and_a_lost_check_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = [ValueError("no answer"), {"title": "", "advice": "", "devices": ["virtual"]}]

    def answer(module: str) -> object:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    monkeypatch.setattr(local, "_run_probe", answer)
    assert working_in_bubblewrap() == {"virtual"}
    answers += [subprocess.TimeoutExpired("probe", 150.0)]
    with pytest.raises(NotGradableHere, match="too busy"):
        working_in_bubblewrap()
    answers += [ValueError("1"), ValueError("2")]
    with pytest.raises(NotGradableHere, match="without an answer"):
        working_in_bubblewrap()
    assert not answers


def test_judges_share_the_devices_evenly(tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=60)

    def meet(judge: FakeJudge, request: GradeRequest) -> Outcome | None:
        together.wait()
        return None

    bench = Bench(meet)
    run(gpu_jobs_in(tmp_path, 2), bench, devices=RealDevices(GPUS, dict))
    assert sorted(request.device for request in bench.graded) == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize(("memory_gib", "most"), [(2, 1), (8, 2), (None, 4)])
def test_memory_limits_the_users_of_a_device(tmp_path: Path, memory_gib: int | None, most: int) -> None:
    together = threading.Barrier(most, timeout=60)
    gpu = replace(GPUS[0], memory_bytes=memory_gib and memory_gib << 30)
    devices, users = RealDevices([gpu], dict), list[int]()

    def meet(judge: FakeJudge, request: GradeRequest) -> Outcome | None:
        users.append(devices._users["cuda:0"])
        together.wait()
        return None

    work = run(gpu_jobs_in(tmp_path, 8), Bench(meet), 4, devices)
    assert work.progress.outcomes == {Outcome.PASSED: 8}
    assert max(users) == most
    assert devices._users["cuda:0"] == 0

"""The Ray executor on a fake cluster: whatever happens to a node or a task, each job is graded once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from gpututor.classroom.executors import ray as ray_module
from gpututor.classroom.executors.local import RealDevices
from gpututor.classroom.executors.ray import ChunkResult, ClusterLost, RayCluster, RayNode, grade_in_order, probe_node
from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import MOST_ATTEMPTS
from gpututor.cli.main import main
from gpututor.errors import GradingError, NotGradableHere, UsageError
from gpututor.grading.journal import entries, exercise_digest, grader_version
from gpututor.grading.report import Outcome
from gpututor.hardware.inventory import Device, torch_version
from tests.support.fake_cluster import TWO, FakeCluster, check_all_graded, gpu_jobs_in, jobs_in, lose, run
from tests.support.fake_judges import Bench, dies, job_of, on

NO_DEVICE = "No device works."


def test_all_nodes_get_shrinking_chunks_and_grade_each_job_once(tmp_path: Path) -> None:
    cluster = FakeCluster(TWO)
    work, messages = run(jobs_in(tmp_path, 120), cluster)
    check_all_graded(tmp_path, work, 120)
    sizes = [len(jobs) for _, jobs, _ in cluster.chunks]
    assert (max(sizes), sizes[-1] <= 8) == (50, True)
    assert {node for node, _, _ in cluster.chunks} == {"a", "b"}
    assert len(cluster.bench.graded) == 120
    assert messages == []


def test_judges_limits_the_chunks_in_parallel(tmp_path: Path) -> None:
    cluster = FakeCluster({"a": RayNode("node a", 8, 0)})
    work, _ = run(jobs_in(tmp_path, 60), cluster, judges=2)
    check_all_graded(tmp_path, work, 60)
    assert cluster.most_at_once == 2


def test_a_dead_node_loses_nothing_and_counts_no_failure(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, node: str, jobs: Sequence[Job]) -> ChunkResult:
        if node == "a":
            return cluster.grade(jobs)
        cluster.grade(jobs[:2])
        cluster.living.pop("b")
        return lose("NodeDiedError: it died")

    cluster = FakeCluster(TWO, act=act)
    work, messages = run(jobs_in(tmp_path, 40), cluster)
    check_all_graded(tmp_path, work, 40)
    assert work.progress.retried == 0
    assert len(cluster.bench.graded) == 40
    assert len(messages) == 1


def test_a_submission_that_kills_its_workers_is_given_up_alone(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, node: str, jobs: Sequence[Job]) -> ChunkResult:
        for number, job in enumerate(jobs):
            if Path(job.submission_path).read_text() == "7":
                cluster.grade(jobs[:number])
                return lose("WorkerCrashedError: it died")
        return cluster.grade(jobs)

    work, _ = run(jobs_in(tmp_path, 20), FakeCluster(TWO, act=act))
    assert work.progress.outcomes == {Outcome.PASSED: 19}
    assert [(failure.attempts, failure.why) for failure in work.failures] == [
        (MOST_ATTEMPTS, "WorkerCrashedError: it died")
    ]


def test_another_judge_retries_a_broken_grading(tmp_path: Path) -> None:
    bench = Bench()
    bench._deed = on({"3": lambda judge, request: dies(judge, request) if bench.tries["3"] == 1 else None})
    work, _ = run(jobs_in(tmp_path, 10), FakeCluster(TWO, bench))
    check_all_graded(tmp_path, work, 10)
    assert (work.progress.retried, bench.tries["3"]) == (1, 2)


def test_an_unfit_node_gets_no_work_and_is_named(tmp_path: Path) -> None:
    cluster = FakeCluster(TWO)
    cluster.unfit["a"] = "it has PyTorch 2.9.0"
    work, messages = run(jobs_in(tmp_path, 10), cluster)
    check_all_graded(tmp_path, work, 10)
    assert {node for node, _, _ in cluster.chunks} == {"b"}
    (message,) = messages
    assert message.startswith("Node node a ")
    assert message.endswith(cluster.unfit["a"])


def test_a_run_without_fit_nodes_ends_with_their_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(TWO)
    cluster.unfit |= {"a": "no folder", "b": "no bubblewrap"}
    with pytest.raises(NotGradableHere, match=r"node a: no folder\s+node b: "):
        run(jobs_in(tmp_path, 3), cluster)
    assert not list((tmp_path / "journal").glob(".*"))
    monkeypatch.setattr(ray_module, "NODE_TIMEOUT_S", 0.0)
    with pytest.raises(GradingError):
        run(jobs_in(tmp_path, 3), FakeCluster({}))


def test_gpu_jobs_go_to_nodes_with_gpus_that_work(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, node: str, jobs: Sequence[Job]) -> ChunkResult:
        if node == "b" and jobs[0].gpus:
            return ChunkResult(unfit=NO_DEVICE)
        return cluster.grade([replace(job, device="virtual") for job in jobs])

    cluster = FakeCluster({**TWO, "b": RayNode("node b", 1, 2), "c": RayNode("node c", 1, 2)}, act=act)
    work, messages = run([*jobs_in(tmp_path, 20), *gpu_jobs_in(tmp_path, 9, gpus=4)], cluster)
    check_all_graded(tmp_path, work, 29)
    # A job for four GPUs gets both of a node.
    assert {(node, gpus) for node, jobs, gpus in cluster.chunks if jobs[0].gpus} <= {("b", 2), ("c", 2)}
    assert all(len({job.key.device for job in jobs}) == 1 for _, jobs, _ in cluster.chunks)
    assert all("node b" in message and NO_DEVICE in message for message in messages)
    assert len(messages) <= 1


@pytest.mark.parametrize(("gpus", "reason"), [(1, NO_DEVICE), (0, "it has no such device")])
def test_without_a_device_jobs_that_need_none_are_graded(tmp_path: Path, gpus: int, reason: str) -> None:
    def act(cluster: FakeCluster, _: str, jobs: Sequence[Job]) -> ChunkResult:
        return ChunkResult(unfit=NO_DEVICE) if jobs[0].gpus else cluster.grade(jobs)

    jobs = [*jobs_in(tmp_path, 6), *gpu_jobs_in(tmp_path, 100, exercises=10)]
    with pytest.raises(NotGradableHere, match=rf"on cuda H100\.\n  node b: {reason}"):
        run(jobs, FakeCluster({"b": RayNode("node b", 16, gpus)}, act=act))
    assert len(list(entries(tmp_path / "journal"))) == 6


def test_a_node_says_what_it_lacks(tmp_path: Path) -> None:
    exercise, journal = tmp_path / "exercise", tmp_path / "journal"
    exercise.mkdir()
    (exercise / "checks.py").write_text("checks = []\n")
    journal.mkdir()
    (journal / ".sign").touch()
    job = job_of(tmp_path)
    key = replace(job.key, gpututor=grader_version(), torch=torch_version(), exercise_version=exercise_digest(exercise))
    job = replace(job, key=key, exercise_folder=str(exercise))
    versions = {str(exercise): key.exercise_version}

    def lacks(marker: str = ".sign", versions: Mapping[str, str] = versions, **changed: str) -> str:
        return probe_node(replace(job, key=replace(key, **changed)), versions, "process", marker)

    assert lacks() == ""
    assert "PyTorch" in lacks(torch="1.0")
    assert "gpututor" in lacks(gpututor="9")
    assert str(journal) in lacks(marker=".other")
    assert str(tmp_path / "no") in lacks(versions={str(tmp_path / "no"): "1"})
    assert str(exercise) in lacks(versions={str(exercise): "1"})

    def no_bubblewrap() -> None:
        raise NotGradableHere("There is no bubblewrap.")

    assert probe_node(job, {}, "bubblewrap", ".sign", no_bubblewrap) == "There is no bubblewrap."


def test_a_retried_task_skips_jobs_in_the_journal(tmp_path: Path) -> None:
    bench, jobs = Bench(), jobs_in(tmp_path, 6)
    grade_in_order(jobs[:4], RealDevices((), dict), bench)
    assert grade_in_order(jobs, RealDevices((), dict), bench) == ChunkResult()
    assert all(job.is_graded for job in jobs)
    assert len(bench.graded) == 6
    assert bench.closed == bench.made == 2


@pytest.mark.parametrize("error", ["", "it fell off the bus"])
def test_a_chunk_ends_at_its_first_failure(tmp_path: Path, error: str) -> None:
    bench, jobs = Bench(on({"g1": dies})), gpu_jobs_in(tmp_path, 6)
    devices = RealDevices([Device("cuda:0", "cuda", "H100")], lambda: {"cuda:0": error})
    result = grade_in_order(jobs, devices, bench)
    assert [job.is_graded for job in jobs] == [True, *[False] * 5]
    assert result.failure
    assert (error in result.unfit) if error else not result.unfit
    assert len(bench.graded) == 2


def test_a_late_node_gets_work(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, _: str, jobs: Sequence[Job]) -> ChunkResult:
        cluster.living["c"] = RayNode("node c", 1, 0)
        return cluster.grade(jobs)

    cluster = FakeCluster({"a": RayNode("node a", 1, 0)}, act=act)
    work, messages = run(jobs_in(tmp_path, 40), cluster)
    check_all_graded(tmp_path, work, 40)
    assert {node for node, _, _ in cluster.chunks} == {"a", "c"}
    assert messages == []


def test_the_wait_for_a_node_starts_again_after_each_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    polls = 0

    class Late(FakeCluster):
        def nodes(self) -> Mapping[str, RayNode]:
            nonlocal polls
            polls += 1
            if polls in (2, 20):
                self.living = {str(polls): RayNode("node", 1, 0)}
            return super().nodes()

    def act(cluster: FakeCluster, node: str, jobs: Sequence[Job]) -> ChunkResult:
        if node != "2":
            return cluster.grade(jobs)
        now[0] += 3600
        cluster.living = {}
        return lose("NodeDiedError: it died")

    work, messages = run(jobs_in(tmp_path, 5), Late({}, act=act))
    check_all_graded(tmp_path, work, 5)
    assert len(messages) == 3
    assert messages[0] == messages[2] != messages[1]


def test_a_lost_cluster_ends_the_run_and_keeps_finished_gradings(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, _: str, jobs: Sequence[Job]) -> ChunkResult:
        cluster.grade(jobs[:1])
        raise ClusterLost("it is gone")

    with pytest.raises(ClusterLost) as raised:
        run(jobs_in(tmp_path, 10), FakeCluster(TWO, act=act))
    assert "--resume" in raised.value.advice
    assert len(list(entries(tmp_path / "journal"))) == 1


@pytest.mark.parametrize(
    ("address", "module", "words"),
    [
        ("", None, r"gpututor\[ray\]"),
        ("ray://here:10001", ModuleType("ray"), "ray://here:10001"),
        ("127.0.0.1:1", ModuleType("ray"), r"127\.0\.0\.1:1"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, address: str, module: ModuleType | None, words: str
) -> None:
    if module is not None:
        module.__spec__ = ModuleSpec("ray", None)
    monkeypatch.setitem(sys.modules, "ray", module)
    with mock.patch.dict(os.environ), pytest.raises(UsageError, match=words):
        RayCluster(address, 1, 0).open()


def test_a_class_is_not_even_read_without_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "class").mkdir()
    out = tmp_path / "out"
    words = ["classroom", "grade", str(tmp_path / "class"), "--out", str(out)]
    assert main([*words, "--executor", "ray"]) == 2
    said = capsys.readouterr()
    assert "gpututor[ray]" in said.err
    assert said.out == ""
    assert not out.exists()


@pytest.mark.parametrize("words", [["--address", "auto"], ["--executor", "ray", "--device", "cuda:1"]])
def test_contradictory_options_are_a_usage_error(tmp_path: Path, words: list[str]) -> None:
    assert main(["classroom", "grade", str(tmp_path), "--out", str(tmp_path / "out"), *words]) == 2

"""Jobs on the nodes of an imitated cluster: whatever becomes of a node or a task, all is graded once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from gpututor.classroom.executors import ray as ray_module
from gpututor.classroom.executors.local import RealDevices
from gpututor.classroom.executors.ray import (
    ChunkResult,
    ClusterLost,
    Node,
    RayCluster,
    TaskLost,
    grade_in_order,
    probe_node,
)
from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import MOST_ATTEMPTS
from gpututor.cli.main import main
from gpututor.errors import GradingError, NotGradableHere, UsageError
from gpututor.grading.journal import entries, exercise_digest
from gpututor.grading.report import Outcome
from gpututor.hardware.inventory import Device, torch_version
from tests.support.fake_cluster import TWO, FakeCluster, check_all_graded, jobs_in, run
from tests.support.fake_judges import Bench, dies, job_of, on


def test_all_nodes_get_chunks_that_grow_smaller_and_every_job_is_graded_once(tmp_path: Path) -> None:
    cluster = FakeCluster(TWO)
    work, told = run(jobs_in(tmp_path, 120), cluster)
    check_all_graded(tmp_path, work, 120)
    assert sorted(len(jobs) for _, jobs, _ in cluster.chunks)[-1] == 50
    assert len(cluster.chunks[-1][1]) <= 8
    assert {node for node, _, _ in cluster.chunks} == {"a", "b"}
    assert len(cluster.bench.graded) == 120
    assert all(len({job.key.device for job in jobs}) == 1 for _, jobs, _ in cluster.chunks)
    assert told == []


def test_no_more_than_asked_for_are_at_work_at_once(tmp_path: Path) -> None:
    cluster = FakeCluster({"a": Node("node a", 8, 0)})
    work, _ = run(jobs_in(tmp_path, 60), cluster, judges=2)
    check_all_graded(tmp_path, work, 60)
    assert cluster.most_at_once == 2


def test_a_node_that_dies_in_the_middle_loses_nothing_and_charges_nobody(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, node: str, jobs: Sequence[Job]) -> ChunkResult:
        if node == "b":
            cluster.graded(jobs[:2])
            del cluster.living["b"]
            raise TaskLost("NodeDiedError: it died")
        return cluster.graded(jobs)

    cluster = FakeCluster(TWO, act=act)
    work, told = run(jobs_in(tmp_path, 40), cluster)
    check_all_graded(tmp_path, work, 40)
    assert work.progress.retried == 0
    assert len(cluster.bench.graded) == 40
    assert told == ["Node node b is gone: what it had in hand is graded elsewhere."]


def test_what_kills_its_worker_again_and_again_is_abandoned_and_the_rest_is_graded(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, node: str, jobs: Sequence[Job]) -> ChunkResult:
        for number, job in enumerate(jobs):
            if Path(job.submission_path).read_text() == "7":
                cluster.graded(jobs[:number])
                raise TaskLost("WorkerCrashedError: it died")
        return cluster.graded(jobs)

    cluster = FakeCluster(TWO, act=act)
    work, _ = run(jobs_in(tmp_path, 20), cluster)
    assert work.progress.outcomes == {Outcome.PASSED: 19}
    assert [(trouble.attempts, trouble.why) for trouble in work.failures] == [
        (MOST_ATTEMPTS, "WorkerCrashedError: it died")
    ]


def test_a_grading_that_breaks_is_tried_again_by_another_judge(tmp_path: Path) -> None:
    bench = Bench()
    bench._deed = on({"3": lambda judge, request: dies(judge, request) if bench.tries["3"] == 1 else None})
    cluster = FakeCluster(TWO, bench)
    work, _ = run(jobs_in(tmp_path, 10), cluster)
    check_all_graded(tmp_path, work, 10)
    assert (work.progress.retried, bench.tries["3"]) == (1, 2)


def test_a_node_that_is_not_fit_gets_nothing_and_is_told(tmp_path: Path) -> None:
    cluster = FakeCluster(TWO)
    cluster.unfit["a"] = "it has PyTorch 2.9.0, and 2.13.0 is needed"
    work, told = run(jobs_in(tmp_path, 10), cluster)
    check_all_graded(tmp_path, work, 10)
    assert {node for node, _, _ in cluster.chunks} == {"b"}
    assert told == ["Node node a cannot grade: it has PyTorch 2.9.0, and 2.13.0 is needed"]


def test_where_no_node_is_fit_all_say_why(tmp_path: Path) -> None:
    cluster = FakeCluster(TWO)
    cluster.unfit |= {"a": "no folder", "b": "no bubblewrap"}
    with pytest.raises(NotGradableHere, match=r"can grade\.\n  node a: no folder\n  node b: no bubblewrap"):
        run(jobs_in(tmp_path, 3), cluster)
    assert not list((tmp_path / "journal").glob(".*"))


def test_real_devices_are_asked_for_and_a_node_whose_device_is_sick_goes_on_with_the_rest(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, node: str, jobs: Sequence[Job]) -> ChunkResult:
        if node == "b" and jobs[0].gpus:
            return ChunkResult({}, unfit="No device is left that computes.")
        return cluster.graded([replace(job, device="virtual") for job in jobs])

    on_gpus = [replace(job_of(tmp_path, "l/gpu", f"g{number}", device="cuda H100"), gpus=4) for number in range(9)]
    cluster = FakeCluster({**TWO, "b": Node("node b", 1, 2), "c": Node("node c", 1, 2)}, act=act)
    work, told = run([*jobs_in(tmp_path, 20), *on_gpus], cluster)
    check_all_graded(tmp_path, work, 29)
    asked = {(node, gpus) for node, jobs, gpus in cluster.chunks if jobs[0].gpus}
    assert asked <= {("b", 2), ("c", 2)}
    assert told in ([], ["Node node b grades no more on cuda H100: No device is left that computes."])


def test_where_no_device_is_left_what_needs_none_is_graded(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, _: str, jobs: Sequence[Job]) -> ChunkResult:
        return ChunkResult({}, unfit="No device is left that computes.") if jobs[0].gpus else cluster.graded(jobs)

    on_gpus = [
        replace(job_of(tmp_path, f"l/gpu{number % 10}", f"g{number}", device="cuda H100"), gpus=1)
        for number in range(100)
    ]
    cluster = FakeCluster({"b": Node("node b", 16, 1)}, act=act)
    with pytest.raises(NotGradableHere, match=r"can grade on cuda H100\.\n  node b: No device is left that computes"):
        run([*jobs_in(tmp_path, 6), *on_gpus], cluster)
    assert len(list(entries(tmp_path / "journal"))) == 6


def test_where_nobody_has_the_device_it_stops_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    job = replace(job_of(tmp_path, device="cuda H100"), gpus=1)
    with pytest.raises(NotGradableHere, match=r"can grade on cuda H100\.\n  node a: it has no such device"):
        run([job], FakeCluster(TWO))


def test_a_node_says_what_it_lacks(tmp_path: Path) -> None:
    exercise, journal = tmp_path / "exercise", tmp_path / "journal"
    exercise.mkdir()
    (exercise / "checks.py").write_text("checks = []\n")
    journal.mkdir()
    (journal / ".sign").touch()
    job = job_of(tmp_path)
    key = replace(job.key, torch=torch_version(), exercise_version=exercise_digest(exercise))
    job = replace(job, key=key, exercise_folder=str(exercise))

    versions = {str(exercise): key.exercise_version}

    def lacks(marker: str = ".sign", versions: Mapping[str, str] = versions, **changed: str) -> str:
        return probe_node(replace(job, key=replace(key, **changed)), versions, "process", marker)

    assert lacks() == ""
    assert "one version everywhere" in lacks(torch="1.0")
    assert "it has gpututor" in lacks(gpututor="9")
    assert "must be a folder that all nodes share" in lacks(marker=".other")
    assert "does not see" in lacks(versions={str(tmp_path / "no"): "1"})
    assert "are not those of the other nodes" in lacks(versions={str(exercise): "1"})

    def no_bubblewrap() -> None:
        raise NotGradableHere("There is no bubblewrap.")

    assert probe_node(job, {}, "bubblewrap", ".sign", no_bubblewrap) == "There is no bubblewrap."


def test_a_task_that_is_tried_again_leaves_out_what_is_written(tmp_path: Path) -> None:
    bench, jobs = Bench(), jobs_in(tmp_path, 6)
    grade_in_order(jobs[:4], RealDevices((), dict), bench)
    result = grade_in_order(jobs, RealDevices((), dict), bench)
    assert result == ChunkResult({job.key.name: Outcome.PASSED for job in jobs})
    assert len(bench.graded) == 6
    assert bench.closed == bench.made == 2


@pytest.mark.parametrize("left", ["", "No device is left that computes (cuda:0: it fell off the bus)."])
def test_what_breaks_is_told_before_others_are_begun(tmp_path: Path, left: str) -> None:
    bench = Bench(on({"g1": dies}))
    jobs = [replace(job_of(tmp_path, text=f"g{number}", device="cuda H100"), gpus=1) for number in range(6)]
    devices = RealDevices([Device("cuda:0", "cuda", "H100")], lambda: {"cuda:0": "it fell off the bus" if left else ""})
    result = grade_in_order(jobs, devices, bench)
    assert list(result.outcomes) == [jobs[0].key.name]
    assert list(result.failures) == [jobs[1].key.name]
    assert result.unfit == left
    assert len(bench.graded) == 2


def test_a_node_that_comes_late_gets_work(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, _: str, jobs: Sequence[Job]) -> ChunkResult:
        cluster.living["c"] = Node("node c", 1, 0)
        return cluster.graded(jobs)

    cluster = FakeCluster({"a": Node("node a", 1, 0)}, act=act)
    work, told = run(jobs_in(tmp_path, 40), cluster)
    check_all_graded(tmp_path, work, 40)
    assert {node for node, _, _ in cluster.chunks} == {"a", "c"}
    assert told == []


def test_without_any_node_it_waits_and_then_ends_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_module, "NODE_TIMEOUT_S", 0.0)
    with pytest.raises(GradingError, match="has had a CPU to grade on for 0 minutes"):
        run(jobs_in(tmp_path, 3), FakeCluster({}))


def test_it_waits_anew_each_time_that_no_node_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    looks: list[FakeCluster] = []

    class Late(FakeCluster):
        def nodes(self) -> Mapping[str, Node]:
            looks.append(self)
            if len(looks) in (2, 20):
                self.living = {str(len(looks)): Node("node", 1, 0)}
            return super().nodes()

    def act(cluster: FakeCluster, node: str, jobs: Sequence[Job]) -> ChunkResult:
        if node == "2":
            now[0] += 3600
            cluster.living = {}
            raise TaskLost("NodeDiedError: it died")
        return cluster.graded(jobs)

    work, told = run(jobs_in(tmp_path, 5), Late({}, act=act))
    check_all_graded(tmp_path, work, 5)
    waits = "No node of the cluster has a CPU to grade on. Waiting 10 minutes for one."
    assert told == [waits, "Node node is gone: what it had in hand is graded elsewhere.", waits]


def test_a_cluster_that_is_lost_ends_the_run_and_what_is_done_is_kept(tmp_path: Path) -> None:
    def act(cluster: FakeCluster, _: str, jobs: Sequence[Job]) -> ChunkResult:
        cluster.graded(jobs[:1])
        raise ClusterLost("it is gone")

    with pytest.raises(ClusterLost, match="The Ray cluster is lost: it is gone") as told:
        run(jobs_in(tmp_path, 10), FakeCluster(TWO, act=act))
    assert "--resume" in told.value.advice
    assert len(list(entries(tmp_path / "journal"))) == 1


def test_without_ray_it_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with mock.patch.dict(os.environ), pytest.raises(UsageError, match=r"pip install 'gpututor\[ray\]'"):
        RayCluster("", 1, 0).open()


def test_an_address_of_no_cluster_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    with mock.patch.dict(os.environ), pytest.raises(UsageError, match="only HOST:PORT and auto are understood"):
        RayCluster("ray://here:10001", 1, 0).open()
    with mock.patch.dict(os.environ), pytest.raises(UsageError, match=r"No Ray cluster listens at 127\.0\.0\.1:1"):
        RayCluster("127.0.0.1:1", 1, 0).open()


def test_words_that_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["classroom", "grade", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*words, "--address", "auto"]) == 2
    assert "--executor ray" in capsys.readouterr().err
    assert main([*words, "--executor", "ray", "--device", "cuda:1"]) == 2
    assert "Say --device cuda: Ray chooses." in capsys.readouterr().err

"""Jobs handed out to nodes: whatever becomes of a node or a task, all is graded once. The nodes are made up."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from gpututor.classroom.batch import Job
from gpututor.classroom.executors import cluster as cluster_module
from gpututor.classroom.executors.machines import Lost, Room
from gpututor.classroom.executors.nodes import Needed, Said, grade_some, unfit
from gpututor.classroom.executors.ray import RayCluster
from gpututor.classroom.executors.real_devices import RealDevices
from gpututor.classroom.keys import exercise_version
from gpututor.classroom.work import MOST_ATTEMPTS
from gpututor.cli.main import main
from gpututor.errors import NotGradableHere, UsageError
from gpututor.grading.inventory import Device, torch_version
from gpututor.grading.journal import entries
from gpututor.grading.report import Outcome
from tests.unit.classroom.clusters import TWO, Made, check_all_graded, jobs_in, run
from tests.unit.classroom.judges import Bench, dies, job_of, on


@pytest.fixture(autouse=True)
def looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "NODES_EVERY_S", 0.0)


def test_all_nodes_get_chunks_that_grow_smaller_and_every_job_is_graded_once(tmp_path: Path) -> None:
    cluster = Made(TWO)
    work, told = run(jobs_in(tmp_path, 120), cluster)
    check_all_graded(tmp_path, work, 120)
    assert sorted(len(jobs) for _, jobs, _ in cluster.chunks)[-1] == 50
    assert len(cluster.chunks[-1][1]) <= 8
    assert {node for node, _, _ in cluster.chunks} == {"a", "b"}
    assert len(cluster.bench.graded) == 120
    assert all(len({job.key.device for job in jobs}) == 1 for _, jobs, _ in cluster.chunks)
    assert told == []


def test_no_more_than_asked_for_are_at_work_at_once(tmp_path: Path) -> None:
    cluster = Made({"a": Room("node a", 8, 0)})
    work, _ = run(jobs_in(tmp_path, 60), cluster, judges=2)
    check_all_graded(tmp_path, work, 60)
    assert cluster.most_at_once == 2


def test_a_node_that_dies_in_the_middle_loses_nothing_and_charges_nobody(tmp_path: Path) -> None:
    def act(cluster: Made, node: str, jobs: Sequence[Job]) -> Said:
        if node == "b":
            cluster.graded(jobs[:2])
            del cluster.living["b"]
            raise Lost("NodeDiedError: it died")
        return cluster.graded(jobs)

    cluster = Made(TWO, act=act)
    work, told = run(jobs_in(tmp_path, 40), cluster)
    check_all_graded(tmp_path, work, 40)
    assert work.progress.retried == 0
    assert len(cluster.bench.graded) == 40
    assert told == ["Node node b is gone: what it had in hand is graded elsewhere."]


def test_what_kills_its_worker_again_and_again_is_given_up_and_the_rest_is_graded(tmp_path: Path) -> None:
    def act(cluster: Made, node: str, jobs: Sequence[Job]) -> Said:
        for number, job in enumerate(jobs):
            if Path(job.submission_path).read_text() == "7":
                cluster.graded(jobs[:number])
                raise Lost("WorkerCrashedError: it died")
        return cluster.graded(jobs)

    cluster = Made(TWO, act=act)
    work, _ = run(jobs_in(tmp_path, 20), cluster)
    assert work.progress.outcomes == {Outcome.PASSED: 19}
    assert [(trouble.attempts, trouble.why) for trouble in work.troubles] == [
        (MOST_ATTEMPTS, "WorkerCrashedError: it died")
    ]


def test_a_grading_that_breaks_is_tried_again_by_another_judge(tmp_path: Path) -> None:
    bench = Bench()
    bench._deed = on({"3": lambda judge, request: dies(judge, request) if bench.tries["3"] == 1 else None})
    cluster = Made(TWO, bench)
    work, _ = run(jobs_in(tmp_path, 10), cluster)
    check_all_graded(tmp_path, work, 10)
    assert (work.progress.retried, bench.tries["3"]) == (1, 2)


def test_a_node_that_is_not_fit_gets_nothing_and_is_told(tmp_path: Path) -> None:
    cluster = Made(TWO)
    cluster.unfit["a"] = "it has PyTorch 2.9.0, and 2.13.0 is needed"
    work, told = run(jobs_in(tmp_path, 10), cluster)
    check_all_graded(tmp_path, work, 10)
    assert {node for node, _, _ in cluster.chunks} == {"b"}
    assert told == ["Node node a cannot grade: it has PyTorch 2.9.0, and 2.13.0 is needed"]


def test_where_no_node_is_fit_all_say_why(tmp_path: Path) -> None:
    cluster = Made(TWO)
    cluster.unfit |= {"a": "no folder", "b": "no bubblewrap"}
    with pytest.raises(NotGradableHere, match=r"can grade\.\n  node a: no folder\n  node b: no bubblewrap"):
        run(jobs_in(tmp_path, 3), cluster)
    assert not list((tmp_path / "journal").glob(".*"))


def test_real_devices_are_asked_for_and_a_node_whose_device_is_sick_goes_on_with_the_rest(tmp_path: Path) -> None:
    def act(cluster: Made, node: str, jobs: Sequence[Job]) -> Said:
        if node == "b" and jobs[0].gpus:
            return Said((), unfit="No device is left that computes.")
        return cluster.graded([replace(job, device="virtual") for job in jobs])

    on_gpus = [replace(job_of(tmp_path, "l/gpu", f"g{number}", device="cuda H100"), gpus=4) for number in range(9)]
    cluster = Made({**TWO, "b": Room("node b", 1, 2), "c": Room("node c", 1, 2)}, act=act)
    work, told = run([*jobs_in(tmp_path, 20), *on_gpus], cluster)
    check_all_graded(tmp_path, work, 29)
    asked = {(node, gpus) for node, jobs, gpus in cluster.chunks if jobs[0].gpus}
    assert asked <= {("b", 2), ("c", 2)}
    assert told in ([], ["Node node b grades no more on cuda H100: No device is left that computes."])


def test_where_no_device_is_left_what_needs_none_is_graded(tmp_path: Path) -> None:
    def act(cluster: Made, _: str, jobs: Sequence[Job]) -> Said:
        return Said((), unfit="No device is left that computes.") if jobs[0].gpus else cluster.graded(jobs)

    on_gpus = [
        replace(job_of(tmp_path, f"l/gpu{number % 10}", f"g{number}", device="cuda H100"), gpus=1)
        for number in range(100)
    ]
    cluster = Made({"b": Room("node b", 16, 1)}, act=act)
    with pytest.raises(NotGradableHere, match=r"can grade on cuda H100\.\n  node b: No device is left that computes"):
        run([*jobs_in(tmp_path, 6), *on_gpus], cluster)
    assert len(list(entries(tmp_path / "journal"))) == 6


def test_where_nobody_has_the_device_it_stops_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    job = replace(job_of(tmp_path, device="cuda H100"), gpus=1)
    with pytest.raises(NotGradableHere, match=r"can grade on cuda H100\.\n  node a: it has no such device"):
        run([job], Made(TWO))


def test_a_report_that_nobody_here_sees_is_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "SEEN_WITHIN_S", 0.0)
    cluster = Made(TWO, act=lambda cluster, node, jobs: Said(tuple(job.key.name for job in jobs)))
    work, _ = run(jobs_in(tmp_path, 1), cluster)
    assert "its report is not in the journal" in work.troubles[0].why


def test_a_node_says_what_it_lacks(tmp_path: Path) -> None:
    exercise, journal = tmp_path / "exercise", tmp_path / "journal"
    exercise.mkdir()
    (exercise / "checks.py").write_text("checks = []\n")
    journal.mkdir()
    (journal / ".sign").touch()
    job = job_of(tmp_path)
    key = replace(job.key, torch=torch_version(), exercise_version=exercise_version(exercise))
    needed = Needed.by([replace(job, key=key, exercise_folder=str(exercise))], "process", ".sign")
    assert unfit(needed) == ""

    def lacks(**changed: Any) -> str:
        return unfit(replace(needed, **changed))

    assert "one version everywhere" in lacks(job=replace(job, key=replace(key, torch="1.0")))
    assert "it has gpututor" in lacks(job=replace(job, key=replace(key, gpututor="9")))
    assert "must be a folder that all nodes share" in lacks(sign=".other")
    assert "does not see" in lacks(exercises=((str(tmp_path / "no"), "1"),))
    assert "are not those of the other nodes" in lacks(exercises=((str(exercise), "1"),))

    def no_bubblewrap() -> None:
        raise NotGradableHere("There is no bubblewrap.")

    assert unfit(replace(needed, isolation="bubblewrap"), no_bubblewrap) == "There is no bubblewrap."


def test_a_task_that_is_tried_again_leaves_out_what_is_written(tmp_path: Path) -> None:
    bench, jobs = Bench(), jobs_in(tmp_path, 6)
    grade_some(jobs[:4], RealDevices((), dict), bench)
    said = grade_some(jobs, RealDevices((), dict), bench)
    assert said == Said(tuple(job.key.name for job in jobs))
    assert len(bench.graded) == 6
    assert bench.closed == bench.made == 2


@pytest.mark.parametrize("left", ["", "No device is left that computes (cuda:0: it fell off the bus)."])
def test_what_breaks_is_told_before_others_are_begun(tmp_path: Path, left: str) -> None:
    bench = Bench(on({"g1": dies}))
    jobs = [replace(job_of(tmp_path, text=f"g{number}", device="cuda H100"), gpus=1) for number in range(6)]
    devices = RealDevices([Device("cuda:0", "cuda", "H100")], lambda: {"cuda:0": "it fell off the bus" if left else ""})
    said = grade_some(jobs, devices, bench)
    assert said.graded == (jobs[0].key.name,)
    assert [key for key, _ in said.broken] == [jobs[1].key.name]
    assert said.unfit == left
    assert len(bench.graded) == 2


def test_without_ray_it_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with mock.patch.dict(os.environ), pytest.raises(UsageError, match=r"pip install 'gpututor\[ray\]'"):
        RayCluster("", 1, 0, "").open()


def test_an_address_of_no_cluster_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    with mock.patch.dict(os.environ), pytest.raises(UsageError, match="only HOST:PORT and auto are understood"):
        RayCluster("ray://here:10001", 1, 0, "").open()
    with mock.patch.dict(os.environ), pytest.raises(UsageError, match=r"No Ray cluster listens at 127\.0\.0\.1:1"):
        RayCluster("127.0.0.1:1", 1, 0, "").open()


def test_words_that_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["classroom", "grade", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*words, "--address", "auto"]) == 2
    assert "--executor ray" in capsys.readouterr().err
    assert main([*words, "--executor", "ray", "--device", "cuda:1"]) == 2
    assert "Say --device cuda: Ray chooses." in capsys.readouterr().err

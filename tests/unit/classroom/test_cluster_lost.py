"""Nodes that hang, come late or are not there, and a cluster that is lost: told, and nothing waits for ever."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gpututor.classroom.batch import Job
from gpututor.classroom.executors import apart as apart_module
from gpututor.classroom.executors import at_work
from gpututor.classroom.executors import cluster as cluster_module
from gpututor.classroom.executors.apart import ClusterApart
from gpututor.classroom.executors.at_work import Chunk
from gpututor.classroom.executors.machines import ClusterLost, Lost, Room
from gpututor.classroom.executors.nodes import Said
from gpututor.errors import GradingError, NotGradableHere
from gpututor.grading.journal import entries
from tests.unit.classroom.clusters import TWO, Made, check_all_graded, jobs_in, run


@pytest.fixture(autouse=True)
def looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "NODES_EVERY_S", 0.0)


def test_a_node_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(cluster: Made, _: str, jobs: Sequence[Job]) -> Said:
        cluster.hang = {"b"}  # from now on
        return cluster.graded(jobs)

    cluster = Made(TWO, act=act)
    monkeypatch.setattr(Chunk, "is_silent", property(lambda chunk: chunk.node in cluster.hang))
    work, told = run(jobs_in(tmp_path, 60), cluster)
    check_all_graded(tmp_path, work, 60)
    assert cluster.dropped
    assert told == ["Node node b cannot grade: a grading there did not end: it hangs, or is busy with others' work"]


def test_a_node_that_hangs_when_it_is_looked_at_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_work, "LOOKED_AT_WITHIN_S", 0.0)
    cluster = Made(TWO)
    cluster.hang = {"a", "b"}
    with pytest.raises(NotGradableHere, match="node a: it did not answer when it was looked at"):
        run(jobs_in(tmp_path, 3), cluster)
    assert len(cluster.dropped) == 2


def test_a_node_that_comes_late_gets_work(tmp_path: Path) -> None:
    def act(cluster: Made, _: str, jobs: Sequence[Job]) -> Said:
        cluster.living["c"] = Room("node c", 1, 0)
        return cluster.graded(jobs)

    cluster = Made({"a": Room("node a", 1, 0)}, act=act)
    work, told = run(jobs_in(tmp_path, 40), cluster)
    check_all_graded(tmp_path, work, 40)
    assert {node for node, _, _ in cluster.chunks} == {"a", "c"}
    assert told == []


def test_without_any_node_it_waits_and_then_ends_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "WAITS_S", 0.0)
    with pytest.raises(GradingError, match="has had a CPU to grade on for 0 minutes"):
        run(jobs_in(tmp_path, 3), Made({}))


def test_it_waits_anew_each_time_that_no_node_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    looks: list[Made] = []

    class Late(Made):
        def nodes(self) -> Mapping[str, Room]:
            looks.append(self)
            if len(looks) in (2, 20):
                self.living = {str(len(looks)): Room("node", 1, 0)}
            return super().nodes()

    def act(cluster: Made, node: str, jobs: Sequence[Job]) -> Said:
        if node == "2":
            now[0] += 3600
            cluster.living = {}
            raise Lost("NodeDiedError: it died")
        return cluster.graded(jobs)

    work, told = run(jobs_in(tmp_path, 5), Late({}, act=act))
    check_all_graded(tmp_path, work, 5)
    waits = "No node of the cluster has a CPU to grade on. Waiting 10 minutes for one."
    assert told == [waits, "Node node is gone: what it had in hand is graded elsewhere.", waits]


def test_a_cluster_that_is_lost_ends_the_run_and_what_is_done_is_kept(tmp_path: Path) -> None:
    def act(cluster: Made, _: str, jobs: Sequence[Job]) -> Said:
        cluster.graded(jobs[:1])
        raise ClusterLost.because("it is gone")

    with pytest.raises(ClusterLost, match="The Ray cluster is lost: it is gone") as told:
        run(jobs_in(tmp_path, 10), Made(TWO, act=act))
    assert "--resume" in told.value.advice
    assert len(list(entries(tmp_path / "journal"))) == 1


def of_script(monkeypatch: pytest.MonkeyPatch, script: str) -> ClusterApart:
    """A cluster whose driver is this script; it finds its `connection` there."""
    start = "import sys; from multiprocessing.connection import Connection; connection = Connection(int(sys.argv[1]))\n"
    monkeypatch.setattr(apart_module, "python_module", lambda _: [sys.executable, "-c", start + script])
    return ClusterApart("", 1, 0)


def test_a_driver_that_ends_or_never_answers_is_a_cluster_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = of_script(monkeypatch, "connection.recv(); connection.send((None, None)); sys.exit(1)")
    cluster.open()
    with pytest.raises(ClusterLost, match="its head is gone, or cannot be reached"):
        cluster.nodes()
    cluster.close()

    monkeypatch.setattr(apart_module, "OPENS_WITHIN_S", 0.0)
    monkeypatch.setattr(apart_module, "CLOSES_WITHIN_S", 0.0)
    cluster = of_script(monkeypatch, "import time; time.sleep(600)")
    with pytest.raises(ClusterLost, match="Ray has not answered for 0 s"):
        cluster.open()
    cluster.close()
    assert cluster.is_closed

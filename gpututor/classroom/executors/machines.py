"""What the executor for several machines asks of whatever runs tasks on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from gpututor.classroom.batch import Job
from gpututor.classroom.executors.nodes import Needed
from gpututor.errors import GradingError
from gpututor.grading.client import IsolationName


class Lost(GradingError):
    """A task came to no answer: its worker or its node died, or could not start."""


class ClusterLost(GradingError):
    """Nothing more can be had of the cluster: its head, or the part of it on this machine, is not there any more."""

    @classmethod
    def because(cls, why: str) -> Self:
        advice = "What is graded is kept in the journal. Look at `ray status`, start Ray anew, and go on with --resume."
        return cls(f"The Ray cluster is lost: {why}.", advice)


@dataclass(frozen=True)
class Room:
    """What a node has to grade on."""

    name: str
    """For a person."""
    cpus: int
    gpus: int


Task = int
"""Of a cluster: told from all others that it ever had."""


class Cluster(Protocol):
    """Machines that run tasks. All but `close` raise `ClusterLost` where nothing can be had of them any more."""

    def open(self) -> None:
        """Raises `UsageError` where there is no cluster to be had."""

    def nodes(self) -> Mapping[str, Room]:
        """Those that live, by an id that no other node ever has."""

    def look(self, node: str, needed: Needed) -> Task:
        """Start `nodes.unfit` there."""

    def grade(self, node: str, jobs: Sequence[Job], isolation: IsolationName, gpus: int) -> Task:
        """Start `nodes.grade_on_node` there."""

    def over(self, tasks: Sequence[Task], timeout_s: float) -> Sequence[Task]:
        """Those that ended; waits until there is one, but not longer than so."""

    def answer(self, task: Task) -> Any:
        """What a task that ended returned. Raises `Lost`."""

    def drop(self, task: Task) -> None:
        """End a task whose answer nobody wants any more."""

    def close(self) -> None:
        """End all tasks."""

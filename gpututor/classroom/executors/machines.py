"""What the executor for several machines asks of whatever runs tasks on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpututor.classroom.batch import Job
from gpututor.classroom.executors.nodes import Needed
from gpututor.errors import GradingError
from gpututor.grading.client import IsolationName


class Lost(GradingError):
    """A task came to no answer: its worker or its node died, or could not start."""


@dataclass(frozen=True)
class Room:
    """What a node has to grade on."""

    name: str
    """For a person."""
    cpus: int
    gpus: int


class Cluster(Protocol):
    """Machines that run tasks. A task can be told from others, and says nothing else."""

    def open(self) -> None:
        """Raises `UsageError` where there is no cluster to be had."""

    def nodes(self) -> Mapping[str, Room]:
        """Those that live, by an id that no other node ever has."""

    def look(self, node: str, needed: Needed) -> Any:
        """Start `nodes.unfit` there."""

    def grade(self, node: str, jobs: Sequence[Job], isolation: IsolationName, gpus: int) -> Any:
        """Start `nodes.grade_on_node` there."""

    def over(self, tasks: Sequence[Any], timeout_s: float) -> Sequence[Any]:
        """Those that ended; waits until there is one, but not longer than so."""

    def answer(self, task: Any) -> Any:
        """What a task that ended returned. Raises `Lost`."""

    def close(self) -> None:
        """End all tasks."""

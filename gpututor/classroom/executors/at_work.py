"""What is known of the nodes of a cluster, and of what they have in hand."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpututor.classroom.executors.machines import Room
from gpututor.classroom.work import Attempt

LOOKED_AT_WITHIN_S = 300.0
SILENT_S = 600.0
"""How long nothing is heard of a chunk, beside what one grading may take, before its node is believed to hang."""


@dataclass
class Node:
    """What can be given to it."""

    room: Room
    is_fit: bool = False
    """It was looked at, and can grade."""
    free_cpus: int = 0
    free_gpus: int = 0
    cannot: dict[str, str] = field(default_factory=dict)
    """Why it grades nothing more, by the device as `GradingKey` has it; "" is for all."""

    def can(self, chunk: Chunk) -> bool:
        return self.room.gpus >= chunk.gpus and not self.cannot.keys() & {"", chunk.device}

    def can_now(self, chunk: Chunk) -> bool:
        has_room = self.free_cpus >= 1 and self.free_gpus >= chunk.gpus
        return self.is_fit and has_room and self.can(chunk)


@dataclass
class Look:
    """At a node that is new."""

    node: str
    since: float = field(default_factory=lambda: time.monotonic())  # looked up late, as all other readings are

    @property
    def is_silent(self) -> bool:
        return time.monotonic() - self.since > LOOKED_AT_WITHIN_S


@dataclass
class Chunk:
    """Some attempts that a node makes one after the other."""

    attempts: dict[str, Attempt]
    """What has no report yet that was seen, by the name of the key; in the order in which they are graded."""
    gpus: int
    device: str
    node: str = ""
    heard: float = 0.0
    """When something was heard of it, or it was given to the node."""

    @property
    def is_silent(self) -> bool:
        longest_s = max((attempt.job.within_s for attempt in self.attempts.values()), default=0.0)
        return time.monotonic() - self.heard > longest_s + SILENT_S

"""The executor for several machines: it hands out jobs in chunks, and believes nobody but the journal.

A node that dies, or a worker on it, costs at most the gradings that were on there; what is written is never done again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from gpututor.classroom.executors.at_work import Chunk, Look, Node
from gpututor.classroom.executors.machines import Cluster, Lost, Task
from gpututor.classroom.executors.nodes import Needed, Said
from gpututor.classroom.executors.one import written_outcome
from gpututor.classroom.work import Attempt, Work
from gpututor.errors import GradingError, NotGradableHere, TutorError, UsageError
from gpututor.grading.client import IsolationName

MOST_IN_CHUNK, LEAST_IN_CHUNK, LEAST_ON_GPU = 50, 8, 2
"""Each chunk has a judge of its own, which takes seconds to start: as long as some gradings, but those on a GPU."""
MOST_READY = 8
"""Chunks that wait for a node that is free: some need a GPU, and nodes without one are not to stand idle."""
SEEN_WITHIN_S = 60.0
"""How long a file that another machine wrote may take to be seen here, on a slow network file system."""
LOOK_S = 0.5
WAITS_S = 600.0
"""For a node, where there is none."""
NODES_EVERY_S = 2.0
_SIGN = ".shared-"
"""How the file in the journal begins by which nodes see that it is the same folder."""


class ClusterExecutor:
    """`judges`: how many grade at once at most, None for as many as there are CPUs. `tell` is told of nodes."""

    def __init__(
        self, cluster: Cluster, isolation: IsolationName, judges: int | None, tell: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._judges = judges
        self._tell = tell
        self._nodes: dict[str, Node] = {}
        self._looks: dict[Task, Look] = {}
        self._chunks: dict[Task, Chunk] = {}
        self._ready: deque[Chunk] = deque()
        self._waits_since: float | None = None
        self._unseen: dict[str, tuple[Attempt, str, float]] = {}
        """What a node says that it graded: the attempt, the node's name, and when it is no longer believed."""

    def run(self, work: Work) -> None:
        """See `Executor`."""
        jobs = work.jobs
        if not jobs:
            return
        sign = Path(jobs[0].journal, f"{_SIGN}{secrets.token_hex(8)}")
        try:
            try:
                for left in sign.parent.glob(f"{_SIGN}*"):  # by a run that was killed
                    left.unlink(missing_ok=True)
                sign.touch()
            except OSError as error:
                raise UsageError(f"{sign.parent} cannot be written to ({error.strerror}).") from error
            self._cluster.open()
            needed = Needed.by(jobs, self._isolation, sign.name)
            looked = -NODES_EVERY_S
            while not work.is_over:
                if time.monotonic() - looked >= NODES_EVERY_S:
                    looked = time.monotonic()
                    self._look_around(needed)
                    self._end_silent(work)
                self._hand_out(work)
                for task in self._cluster.over([*self._looks, *self._chunks], LOOK_S):
                    self._hear(task, work)
                self._read_journal(work)
        except TutorError as error:
            work.stop(error)
        finally:
            work.stop()
            self._cluster.close()
            with contextlib.suppress(OSError):
                sign.unlink()
        work.raise_error()

    def _look_around(self, needed: Needed) -> None:
        living = self._cluster.nodes()
        for node in self._nodes.keys() - living.keys():
            gone = self._nodes.pop(node)
            self._tell(f"Node {gone.room.name} is gone: what it had in hand is graded elsewhere.")
        for node, room in living.items():
            if node not in self._nodes and room.cpus:
                self._waits_since = None
                self._nodes[node] = Node(room, free_cpus=room.cpus, free_gpus=room.gpus)
                self._looks[self._cluster.look(node, needed)] = Look(node)

    def _end_silent(self, work: Work) -> None:
        """A node that hangs does not hold the others up: what it has in hand is graded elsewhere."""
        for task, look in list(self._looks.items()):
            if look.is_silent:
                del self._looks[task]
                self._cluster.drop(task)
                why = "it did not answer when it was looked at: it hangs, or is busy with others' work"
                self._put_aside(look.node, why)
        for task, chunk in list(self._chunks.items()):
            if chunk.is_silent:
                del self._chunks[task]
                self._cluster.drop(task)
                self._put_aside(chunk.node, "a grading there did not end: it hangs, or is busy with others' work")
                for attempt in chunk.attempts.values():
                    work.give_back(attempt)

    def _put_aside(self, name: str, why: str) -> None:
        node = self._nodes.get(name)
        if node is not None:
            node.cannot[""] = why
            self._tell(f"Node {node.room.name} cannot grade: {why}")

    def _hand_out(self, work: Work) -> None:
        """Take what the nodes have room for. What none of them can grade does not keep the rest from them."""
        self._place()
        while self._has_room() and sum(map(self._has_hope, self._ready)) < MOST_READY:
            if (chunk := self._taken(work)) is None:
                break
            self._ready.append(chunk)
            self._place()
        if not self._looks and not self._chunks:
            self._check_hope()

    def _check_hope(self) -> None:
        """Raises `NotGradableHere` where none of the nodes can grade what is left."""
        if not self._nodes:
            now = time.monotonic()
            if self._waits_since is None:
                self._waits_since = now
                self._tell(f"No node of the cluster has a CPU to grade on. Waiting {WAITS_S / 60:.0f} minutes for one.")
            elif now - self._waits_since > WAITS_S:
                title = f"No node of the cluster has had a CPU to grade on for {WAITS_S / 60:.0f} minutes."
                raise GradingError(title, "Start nodes, then go on with --resume.")
            return
        if all("" in node.cannot for node in self._nodes.values()):
            self._give_up("")
        for chunk in self._ready:
            if not self._has_hope(chunk):
                self._give_up(chunk.device)

    def _has_hope(self, chunk: Chunk) -> bool:
        return any(node.can(chunk) for node in self._nodes.values())

    def _has_room(self) -> bool:
        is_allowed = self._judges is None or len(self._chunks) < self._judges
        return is_allowed and any(node.is_fit and node.free_cpus for node in self._nodes.values())

    def _taken(self, work: Work) -> Chunk | None:
        """Some attempts for one device: fewer towards the end, so that all nodes end together."""
        first = work.take(wait=False)
        if first is None:
            return None
        progress = work.progress
        left = progress.total - progress.done - progress.given_up - progress.in_flight
        seats = sum(node.room.cpus for node in self._nodes.values() if node.is_fit)
        least = LEAST_ON_GPU if first.job.gpus else LEAST_IN_CHUNK
        size = max(least, min(MOST_IN_CHUNK, left // (2 * max(1, min(seats, self._judges or seats)))))
        attempts = [first]
        while len(attempts) < size:
            attempt = work.take(first.job.key.exercise, wait=False)
            if attempt is None:
                break
            if (attempt.job.gpus, attempt.job.key.device) != (first.job.gpus, first.job.key.device):
                work.give_back(attempt)
                break
            attempts.append(attempt)
        most = max((node.room.gpus for node in self._nodes.values()), default=0)
        gpus = max(1, min(first.job.gpus, most)) if first.job.gpus else 0
        return Chunk({each.job.key.name: each for each in attempts}, gpus, first.job.key.device)

    def _place(self) -> None:
        for chunk in list(self._ready):
            if self._judges is not None and len(self._chunks) >= self._judges:
                return
            free = [name for name, node in self._nodes.items() if node.can_now(chunk)]
            if not free:
                continue
            # Who has the most room left; nodes without GPUs first, where none is needed.
            chunk.node = min(free, key=lambda name: (self._nodes[name].room.gpus, -self._nodes[name].free_cpus))
            self._nodes[chunk.node].free_cpus -= 1
            self._nodes[chunk.node].free_gpus -= chunk.gpus
            chunk.heard = time.monotonic()
            self._ready.remove(chunk)
            jobs = [attempt.job for attempt in chunk.attempts.values()]
            self._chunks[self._cluster.grade(chunk.node, jobs, self._isolation, chunk.gpus)] = chunk

    def _hear(self, task: Task, work: Work) -> None:
        if task in self._looks:
            self._hear_look(task, self._looks.pop(task).node)
            return
        chunk = self._chunks.pop(task)
        node = self._nodes.get(chunk.node)
        if node is not None:
            node.free_cpus += 1
            node.free_gpus += chunk.gpus
        try:
            said = self._cluster.answer(task)
        except Lost as lost:
            self._lose(chunk, str(lost), work)
            return
        assert isinstance(said, Said)
        name = node.room.name if node is not None else "that is gone"
        if said.unfit and node is not None:
            node.cannot[chunk.device] = said.unfit
            self._tell(f"Node {name} grades no more on {chunk.device}: {said.unfit}")
        for key in said.graded:
            if (attempt := chunk.attempts.pop(key, None)) is not None:
                self._unseen[key] = (attempt, name, time.monotonic() + SEEN_WITHIN_S)
        for key, why in said.broken:
            if (attempt := chunk.attempts.pop(key, None)) is not None:
                work.broke(attempt, why)
        for attempt in chunk.attempts.values():  # not begun, or seen already
            work.give_back(attempt)

    def _hear_look(self, task: Task, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        try:
            why = self._cluster.answer(task)
        except Lost as lost:
            why = str(lost)
        node.is_fit = not why
        if why:
            self._put_aside(name, why)

    def _lose(self, chunk: Chunk, why: str, work: Work) -> None:
        """Its worker died, and died again when the task was tried again; or its node did."""
        self._see(chunk, work, len(chunk.attempts))
        is_alive = chunk.node in self._cluster.nodes()
        for number, attempt in enumerate(chunk.attempts.values()):
            if number == 0 and is_alive:
                work.broke(attempt, why)  # it was on
            else:
                work.give_back(attempt)

    def _read_journal(self, work: Work) -> None:
        for chunk in self._chunks.values():
            self._see(chunk, work, 3)  # it is graded in order: further on nothing is written yet
        for key, (attempt, node, until) in list(self._unseen.items()):
            with contextlib.suppress(OSError):
                os.listdir(attempt.job.key.file_in(Path(attempt.job.journal)).parent)  # NFS: look again
            outcome = written_outcome(attempt.job)
            if outcome is not None:
                work.done(attempt, outcome)
            elif time.monotonic() < until:
                continue
            else:
                work.broke(attempt, f"Node {node} says that it was graded, and its report is not in the journal.")
            del self._unseen[key]

    @staticmethod
    def _see(chunk: Chunk, work: Work, most: int) -> None:
        """Count those of the first `most` whose reports stand in the journal, and so on while there are any."""
        position = 0
        for key, attempt in list(chunk.attempts.items()):
            if position >= most:
                break
            outcome = written_outcome(attempt.job)
            if outcome is None:
                position += 1
            else:
                del chunk.attempts[key]
                chunk.heard = time.monotonic()
                work.done(attempt, outcome)

    def _give_up(self, device: str) -> None:
        reasons = [
            f"{node.room.name}: {node.cannot.get('') or node.cannot.get(device) or 'it has no such device'}"
            for node in self._nodes.values()
        ]
        advice = "Mend it, then go on with --resume. docs/classroom/clusters.md says what a node needs."
        words = f" on {device}" if device else ""
        raise NotGradableHere(f"No node of the cluster can grade{words}.\n  " + "\n  ".join(reasons), advice)

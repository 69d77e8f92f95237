"""A Ray cluster, spoken with by a process apart: whatever becomes of that process or of Ray, who grades is told."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from gpututor import paths
from gpututor.classroom.batch import Job
from gpututor.classroom.executors.machines import ClusterLost, Room, Task
from gpututor.classroom.executors.nodes import Needed
from gpututor.errors import GradingError
from gpututor.grading.client import IsolationName
from gpututor.processes import kill_tree, python_module

OPENS_WITHIN_S = 300.0
ANSWERS_WITHIN_S = 90.0
"""More than the minute for which Ray itself looks for a head that is gone."""
CLOSES_WITHIN_S = 15.0


class ClusterApart:
    """See `RayCluster`. Ctrl-C is heard at any time, and leaves nothing of ours running."""

    def __init__(self, address: str, cpus: int, gpus: int) -> None:
        self._address = address
        self._cpus = cpus
        self._gpus = gpus
        self._folder = ""
        self._driver: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None

    def open(self) -> None:
        """See `Cluster`."""
        # Below /tmp, as Ray's own: sockets have short paths.
        self._folder = tempfile.mkdtemp(prefix="gpututor-ray-", dir="/tmp" if os.name == "posix" else None)
        self._connection, there = multiprocessing.Pipe()
        made_of = [self._address, str(self._cpus), str(self._gpus), self._folder]
        command = [*python_module("gpututor.classroom.executors.ray_driver"), str(there.fileno()), *made_of]
        paths.log_file().parent.mkdir(parents=True, exist_ok=True)
        try:
            with paths.log_file().open("ab") as log, there:
                self._driver = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=os.sep,  # Ray's workers import from there: not from among submissions
                    pass_fds=(there.fileno(),),
                    start_new_session=True,  # Ctrl-C is for us
                )
        except OSError as error:
            raise GradingError(f"The process that speaks with Ray could not be started: {error}") from error
        self._ask("open", within_s=OPENS_WITHIN_S)

    @property
    def is_closed(self) -> bool:
        """Nothing of ours runs, and its folder is not there."""
        return (self._driver is None or self._driver.poll() is not None) and not os.path.exists(self._folder)

    def nodes(self) -> Mapping[str, Room]:
        """See `Cluster`."""
        rooms: Mapping[str, Room] = self._ask("nodes")
        return rooms

    def look(self, node: str, needed: Needed) -> Task:
        """See `Cluster`."""
        task: Task = self._ask("look", node, needed)
        return task

    def grade(self, node: str, jobs: Sequence[Job], isolation: IsolationName, gpus: int) -> Task:
        """See `Cluster`."""
        task: Task = self._ask("grade", node, jobs, isolation, gpus)
        return task

    def over(self, tasks: Sequence[Task], timeout_s: float) -> Sequence[Task]:
        """See `Cluster`."""
        ended: Sequence[Task] = self._ask("over", tasks, timeout_s)
        return ended

    def answer(self, task: Task) -> Any:
        """See `Cluster`."""
        return self._ask("answer", task)

    def drop(self, task: Task) -> None:
        """See `Cluster`."""
        self._ask("drop", task)

    def close(self) -> None:
        """See `Cluster`."""
        if self._connection is not None:
            self._connection.close()  # which the driver takes for the end of its work
        if self._driver is not None:
            try:
                self._driver.wait(CLOSES_WITHIN_S)
            except subprocess.TimeoutExpired:
                kill_tree(self._driver.pid)
                self._driver.wait()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, name: str, *arguments: object, within_s: float = ANSWERS_WITHIN_S) -> Any:
        assert self._connection is not None
        try:
            self._connection.send((name, arguments))
            if not self._connection.poll(within_s):
                raise ClusterLost.because(f"Ray has not answered for {within_s:.0f} s")
            answer, error = self._connection.recv()
        except (EOFError, OSError) as gone:
            raise ClusterLost.because(self._how_driver_ended()) from gone
        if error is not None:
            raise error
        return answer

    def _how_driver_ended(self) -> str:
        assert self._driver is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._driver.wait(CLOSES_WITHIN_S) < 0:
                return f"the process that speaks with Ray was ended by signal {-self._driver.returncode}"
        return f"its head is gone, or cannot be reached; {paths.log_file()} may tell more"

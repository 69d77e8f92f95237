"""The machines of a Ray cluster. Nothing else knows Ray, and it is imported only when somebody asks for it.

It runs in a process apart (`ray_driver`): Ray ends its process without a word, or answers never, when its head is gone.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from gpututor.classroom.batch import Job
from gpututor.classroom.executors.machines import ClusterLost, Lost, Room, Task
from gpututor.classroom.executors.nodes import Needed, grade_on_node, unfit
from gpututor.errors import UsageError
from gpututor.grading.client import IsolationName

STORE_BYTES = 100 << 20
"""Of a cluster of our own: next to nothing travels through Ray."""
CONNECTS_WITHIN_S = 10.0
RETRIES = 2
"""Of a task whose worker dies; it leaves out what is written already."""
RAYLET_ENDED = "the part of it that runs on this machine, the raylet, has ended"

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # no folder is copied to the nodes
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class RayCluster:
    """`address`: of a running cluster, `auto` for the one that this machine is of, empty for one of our own, which has
    `cpus` and `gpus`, keeps its files in `folder`, and ends with us.
    """

    def __init__(self, address: str, cpus: int, gpus: int, folder: str) -> None:
        self._address = address
        self._own = {
            "num_cpus": cpus,
            "num_gpus": gpus,
            "object_store_memory": STORE_BYTES,
            "_temp_dir": folder,
            "include_dashboard": False,
        }
        self._ray: Any = None
        self._here = ""
        """The id of this machine's node."""
        self._functions: dict[Any, Any] = {}
        self._numbers = itertools.count()
        self._tasks: dict[Task, Any] = {}

    def open(self) -> None:
        """See `Cluster`."""
        os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
        if not self._address:  # its ports are open to the network
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
        try:
            import ray
        except ImportError as error:
            advice = "`pip install 'gpututor[ray]'` brings it; --executor local needs none."
            raise UsageError("Ray is not installed, which --executor ray needs.", advice) from error
        _check_address(self._address)
        options = {"address": self._address} if self._address else {"address": "local", **self._own}
        try:
            ray.init(log_to_driver=False, logging_level="CRITICAL", **options)
            self._here = ray.get_runtime_context().get_node_id()
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"The Ray cluster at {self._address!r}" if self._address else "A Ray cluster on this machine"
            advice = (
                "`ray status` tells what runs. All nodes need the same versions of Ray and Python; where the cluster "
                "wants a token, set RAY_AUTH_MODE=token."
            )
            raise UsageError(f"{where} could not be had: {_last_line(error)}", advice) from error
        self._ray = ray
        self._functions = {
            function: ray.remote(num_cpus=1, max_retries=RETRIES, max_calls=1)(function)
            for function in (unfit, grade_on_node)
        }

    def nodes(self) -> Mapping[str, Room]:
        """See `Cluster`."""
        living = {str(node["NodeID"]): node for node in self._ray.nodes() if node["Alive"]}
        if self._here not in living:
            raise ClusterLost.because(RAYLET_ENDED)
        return {
            name: Room(
                f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})",
                int(node["Resources"].get("CPU", 0)),
                int(node["Resources"].get("GPU", 0)),
            )
            for name, node in living.items()
        }

    def look(self, node: str, needed: Needed) -> Task:
        """See `Cluster`."""
        return self._start(unfit, node, 0, needed)

    def grade(self, node: str, jobs: Sequence[Job], isolation: IsolationName, gpus: int) -> Task:
        """See `Cluster`."""
        return self._start(grade_on_node, node, gpus, jobs, isolation)

    def over(self, tasks: Sequence[Task], timeout_s: float) -> Sequence[Task]:
        """See `Cluster`."""
        if not tasks:
            threading.Event().wait(timeout_s)
            return []
        numbers = {self._tasks[task]: task for task in tasks}
        done, _ = self._ray.wait(list(numbers), num_returns=1, timeout=timeout_s, fetch_local=False)
        return [numbers[each] for each in done]

    def answer(self, task: Task) -> Any:
        """See `Cluster`."""
        try:
            return self._ray.get(self._tasks.pop(task))
        except self._ray.exceptions.LocalRayletDiedError as error:
            raise ClusterLost.because(RAYLET_ENDED) from error
        except self._ray.exceptions.RayError as error:
            raise Lost(f"{type(error).__name__}: {_last_line(error)}") from error

    def drop(self, task: Task) -> None:
        """See `Cluster`."""
        self._ray.cancel(self._tasks.pop(task), force=True)

    def close(self) -> None:
        """See `Cluster`."""
        if self._ray is None:
            return
        for task in self._tasks.values():
            self._ray.cancel(task, force=True)
        self._ray.shutdown()
        self._ray = None

    def _start(self, function: Any, node: str, gpus: int, *arguments: Any) -> Task:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        task = next(self._numbers)
        remote = self._functions[function].options(num_gpus=gpus, scheduling_strategy=there)
        self._tasks[task] = remote.remote(*arguments)
        return task


def _check_address(address: str) -> None:
    """Raises `UsageError` where nobody listens: Ray itself would try for minutes."""
    if "://" in address:
        advice = (
            "Run this on a machine of the cluster, with --address auto or HOST:PORT as `ray start --head` prints it."
        )
        raise UsageError(f"--address {address}: only HOST:PORT and auto are understood.", advice)
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECTS_WITHIN_S).close()
    except (OSError, OverflowError) as error:
        advice = "`ray start --head` prints the address. --address auto is the cluster that this machine is of."
        raise UsageError(f"No Ray cluster listens at {address}: {error}", advice) from error


def _last_line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2]

"""The machines of a Ray cluster. Nothing else knows Ray, and it is imported only when somebody asks for it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from gpututor.classroom.batch import Job
from gpututor.classroom.executors.machines import Lost, Room
from gpututor.classroom.executors.nodes import Needed, grade_on_node, unfit
from gpututor.errors import UsageError
from gpututor.grading.client import IsolationName

STORE_BYTES = 100 << 20
"""Of a cluster of our own: next to nothing travels through Ray."""
CONNECTS_WITHIN_S = 10.0
RETRIES = 2
"""Of a task whose worker dies; it leaves out what is written already."""

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # no folder is copied to the nodes
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class RayCluster:
    """`address`: of a running cluster, `auto` for the one that this machine is of, empty for one of our own, which has
    `cpus` and `gpus` and ends with us.
    """

    def __init__(self, address: str, cpus: int, gpus: int) -> None:
        self._address = address
        self._cpus = cpus
        self._gpus = gpus
        self._ray: Any = None
        self._tasks: set[Any] = set()

    def open(self) -> None:
        """See `Cluster`."""
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        try:
            import ray
        except ImportError as error:
            advice = "`pip install 'gpututor[ray]'` brings it; --executor local needs none."
            raise UsageError("Ray is not installed, which --executor ray needs.", advice) from error
        _check_address(self._address)
        own = {"num_cpus": self._cpus, "num_gpus": self._gpus, "object_store_memory": STORE_BYTES}
        options = {"address": self._address} if self._address else {"address": "local", **own}
        on_sigterm = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="CRITICAL", **options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"The Ray cluster at {self._address!r}" if self._address else "A Ray cluster on this machine"
            advice = (
                "`ray status` tells what runs. All nodes need the same versions of Ray and Python; where the cluster "
                "wants a token, set RAY_AUTH_MODE=token."
            )
            raise UsageError(f"{where} could not be had: {_last_line(error)}", advice) from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, on_sigterm)  # Ray takes it
        self._ray = ray

    def nodes(self) -> Mapping[str, Room]:
        """See `Cluster`."""
        return {
            str(node["NodeID"]): Room(
                f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})",
                int(node["Resources"].get("CPU", 0)),
                int(node["Resources"].get("GPU", 0)),
            )
            for node in self._ray.nodes()
            if node["Alive"]
        }

    def look(self, node: str, needed: Needed) -> Any:
        """See `Cluster`."""
        return self._start(unfit, node, 0, needed)

    def grade(self, node: str, jobs: Sequence[Job], isolation: IsolationName, gpus: int) -> Any:
        """See `Cluster`."""
        return self._start(grade_on_node, node, gpus, jobs, isolation)

    def over(self, tasks: Sequence[Any], timeout_s: float) -> Sequence[Any]:
        """See `Cluster`."""
        if not tasks:
            threading.Event().wait(timeout_s)
            return []
        return list(self._ray.wait(list(tasks), num_returns=1, timeout=timeout_s, fetch_local=False)[0])

    def answer(self, task: Any) -> Any:
        """See `Cluster`."""
        self._tasks.discard(task)
        try:
            return self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            raise Lost(f"{type(error).__name__}: {_last_line(error)}") from error

    def close(self) -> None:
        """See `Cluster`."""
        if self._ray is None:
            return
        for task in self._tasks:
            self._ray.cancel(task, force=True)
        self._ray.shutdown()
        self._ray = None

    def _start(self, function: Any, node: str, gpus: int, *arguments: Any) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        remote = self._ray.remote(num_cpus=1, max_retries=RETRIES, max_calls=1)(function)
        task = remote.options(num_gpus=gpus, scheduling_strategy=there).remote(*arguments)
        self._tasks.add(task)
        return task


def _check_address(address: str) -> None:
    """Raises `UsageError` where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECTS_WITHIN_S).close()
    except (OSError, OverflowError) as error:
        advice = "`ray start --head` prints the address. --address auto is the cluster that this machine is of."
        raise UsageError(f"No Ray cluster listens at {address}: {error}", advice) from error


def _last_line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2]

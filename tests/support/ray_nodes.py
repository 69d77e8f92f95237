"""A real Ray cluster of two nodes on this machine, and its workers. Needs the extra `ray`."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.support.class_gradings import pids_below

_TOKEN = secrets.token_hex(32)
"""The token of all clusters: Ray reads it once in a process."""
_NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}


@dataclass(frozen=True)
class Nodes:
    """Two nodes with a CPU each. The first is the head, and the grading process connects to it."""

    address: str
    _cluster: Any
    _second: Any

    def kill_second(self) -> None:
        """Kill the whole second node at once, like a power cut."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def kill_raylet(self) -> None:
        """Kill the raylet of the first node, but not the head."""
        self._kill_of_first("raylet")

    def kill_head(self) -> None:
        self._kill_of_first("gcs_server")

    def _kill_of_first(self, name: str) -> None:
        os.kill(self._cluster.head_node.all_processes[name][0].process.pid, signal.SIGKILL)


@contextlib.contextmanager
def two_nodes() -> Iterator[Nodes]:
    """Start both nodes with a token of their own, so that Ray writes none to the home of the person who tests."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as above, mock.patch.dict(os.environ, token):
        os.environ["RAY_TMPDIR"] = above  # Ray writes the address to `ray` in it, but does not create `ray`
        folder = f"{above}/ray"
        os.mkdir(folder)
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True, head_node_args={**_NODE, "include_dashboard": False, "temp_dir": folder}
        )
        try:
            second = cluster.add_node(**_NODE, temp_dir=folder)
            cluster.wait_for_nodes()
            yield Nodes(cluster.address, cluster, second)
        finally:
            cluster.shutdown()


def workers(of: int) -> list[int]:
    """Return the Ray processes below a process that are grading."""
    return pids_below(of, b"ray::grade_chunk")

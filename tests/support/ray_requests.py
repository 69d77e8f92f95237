"""A program that starts tasks on its own Ray cluster, and prints their results as one JSON object."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from gpututor.classroom.executors import ray as ray_module


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        runs = Path(folder, "runs")

        # Local functions, which Ray sends to its workers by value.
        def grade_chunk(jobs: Any, isolation: str) -> Any:
            import os

            return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")

        def probe_node(path: str) -> None:
            import os

            with open(path, "a", encoding="utf-8") as stream:
                stream.write("x")
            os.abort()

        vars(ray_module).update(grade_chunk=grade_chunk, probe_node=probe_node)
        cluster = ray_module.RayCluster("", cpus=2, gpus=2)
        cluster.open()
        try:
            node = next(iter(cluster.nodes()))
            tasks = [_result(cluster, cluster.start(grade_chunk, node, gpus, [], "process")) for gpus in (1, 2, 0, 1)]
            try:
                lost = _result(cluster, cluster.start(probe_node, node, 0, str(runs)))
            except ray_module.TaskLost as error:
                lost = str(error)
        finally:
            cluster.close()
        print(json.dumps({"tasks": tasks, "lost": lost, "runs": len(runs.read_text())}))


def _result(cluster: ray_module.RayCluster, task: Any) -> Any:
    while not cluster.wait([task], 1.0):
        pass
    return cluster.result(task)


if __name__ == "__main__":
    main()

"""What Ray makes of what it is asked for; prints one JSON object. Run as a module: its process has a cluster."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from gpututor.classroom.executors import ray as ray_module
from gpututor.classroom.executors.machines import Lost


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        runs = Path(folder, "runs")

        # Functions of no module, which Ray sends to its workers as they are.
        def grade_on_node(jobs: Any, isolation: str) -> Any:
            import os

            return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")

        def unfit(path: str) -> None:
            import os

            with open(path, "a", encoding="utf-8") as stream:
                stream.write("x")
            os.abort()

        vars(ray_module).update(grade_on_node=grade_on_node, unfit=unfit)
        cluster = ray_module.RayCluster("", cpus=2, gpus=2, folder=folder)
        cluster.open()
        try:
            node = next(iter(cluster.nodes()))
            said = [_answer(cluster, cluster.grade(node, [], "process", gpus)) for gpus in (1, 2, 0, 1)]
            try:
                lost = _answer(cluster, cluster.look(node, str(runs)))  # type: ignore[arg-type]
            except Lost as error:
                lost = str(error)
        finally:
            cluster.close()
        print(json.dumps({"said": said, "lost": lost, "runs": len(runs.read_text())}))


def _answer(cluster: ray_module.RayCluster, task: int) -> Any:
    while not cluster.over([task], 1.0):
        pass
    return cluster.answer(task)


if __name__ == "__main__":
    main()

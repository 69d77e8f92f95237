"""The big class, graded by Ray on two nodes of this machine; one is killed halfway. For `classroom.py`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from classroom_runs import RAY_KINDS, Graded, grade, memory_table

from gpututor.classroom.folder import ClassFolder
from tests.support.big_class import BigClass
from tests.support.big_class_assertions import check_graded_alike
from tests.support.ray_nodes import Nodes, two_nodes


@dataclass
class _Kill:
    """Callback that kills the second node after some gradings."""

    nodes: Nodes
    after: int
    done: int = 0

    def __call__(self, done: int) -> None:
        if not self.done and done >= self.after:
            self.done = done
            self.nodes.kill_second()


def print_ray(big: BigClass, source: Path, by_local: ClassFolder, local: Graded, options: Sequence[str]) -> None:
    """Grade the class again. Print tables, and raise `AssertionError` if the results differ."""
    folder = ClassFolder(by_local.folder.parent / "by ray")
    gradings = int(str(local.summary["gradings"]))
    with two_nodes() as nodes:
        kill = _Kill(nodes, gradings // 2)
        ray = grade(source, folder, [*options, "--executor", "ray", "--address", nodes.address], RAY_KINDS, kill)
    print(f"{'':<52}{'per second':>12}")
    rows = {
        "local": local.per_s(),
        "local, with the graders' start": float(str(local.summary["per_s"])),
        f"Ray, two nodes of one CPU, until one was killed at {kill.done}": ray.per_s(last=kill.done),
        "Ray, the node that was left, until all was done": ray.per_s(first=kill.done),
        "Ray, from the start to the end": float(str(ray.summary["per_s"])),
    }
    for label, per_s in rows.items():
        print(f"{label:<52}{per_s:>12.2f}")
    print("\n".join(memory_table(ray, RAY_KINDS)))
    print(f"\n{ray.summary['outcomes']}; {ray.summary['retried']} tried again")
    with contextlib.redirect_stdout(io.StringIO()):
        check_graded_alike(big, by_local, folder)
    print("Nothing is lost, nothing counts twice, and all marks are those of the local executor.")

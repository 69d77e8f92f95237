"""Five values: four from the report, and PyTorch's figures of the GPUs here."""

from __future__ import annotations

from typing import Any

from gpututor.checks import Check, Finding, Run
from gpututor.checks.trees import first_difference
from gpututor.checks.value import compare_leaves, shorten

MIB = 1 << 20


def expected(drawn: dict[str, Any], machine: Any) -> dict[str, Any]:
    """Return the drawn values. Memory of tensors and of the cache is not free."""
    here = [
        (machine.memory_bytes // MIB - held - cached, percent)
        for held, cached, percent in drawn["here"][: machine.gpus]
    ]
    return {name: drawn[name] for name in ("driver", "cuda", "gpus", "processes")} | {"here": here}


ADVICE = {
    "driver": "The word after `Driver Version:`. It is a string.",
    "cuda": "The word after `CUDA Version:`. It is a string. PyTorch's own CUDA version has nothing to do with it.",
    "gpus": "Memory-Usage and GPU-Util are in the second and third column of a GPU's second line.",
    "processes": "Three numbers from each line below Processes: GPU, PID and GPU Memory. There may be no process.",
    "here": "Ask each GPU by its index, and round down to whole MiB. mem_get_info returns what the driver has free: "
    "PyTorch's cache is not free for the driver, although no tensor uses it.",
}


def parts(*names: str, check: str, sentence: str, why: str) -> Check:
    """Check some entries of the result. The first wrong entry decides which advice is shown."""

    def find(run: Run) -> Finding | None:
        for position, call in enumerate(run.calls, 1):
            for name in names:
                wanted = expected(call.drawn, run.machine)[name]
                said = call.output.get(name) if isinstance(call.output, dict) else None
                if first_difference(wanted, said, compare_leaves) is not None:
                    got = f"{shorten(said)} (call {position} of {len(run.calls)})"
                    wanted_text = f"result[{name!r}] is {shorten(wanted)}"
                    return Finding(wanted_text, got, run.line_of(call), advice=ADVICE[name])
        return None

    return Check(check, lambda machine: sentence, find, (), why, results_only=True, kind="values")


checks = [
    parts(
        "driver",
        "cuda",
        "gpus",
        check="machine",
        sentence="The versions, and memory and utilization of each GPU in the report are right",
        why="They show which builds of PyTorch run there, and which GPU has room.",
    ),
    parts(
        "processes",
        check="processes",
        sentence="The processes in the report are right",
        why="They show who is using a GPU.",
    ),
    parts(
        "here",
        check="here",
        sentence="Free memory and utilization of this machine's GPUs are right",
        why="A program that asks first can choose a GPU with enough room.",
    ),
]

"""Errors of timing verdicts on the CPU: identical code, and code that takes 1.5 × as long. Prints a table.

    python benchmarks/timing_errors.py [--runs 60] [--noise quiet|hogs|both] [--at-most 1.25] [--log FILE]

At a limit of 1.25, identical code must pass, and code with 1.5 × the work must be too slow. `inconclusive` is counted
separately. Runs once on a quiet machine, and once with three CPU hogs that alternate between work and sleep. With
`--log`, each finished run becomes a line of a file, and a later call continues from there. All runs use the same
workers: only the timing is repeated. A timing takes about 10 s on two idle cores and up to 100 s on busy cores. So 60
runs of all four kinds take 40 minutes or more. For `quiet`, the machine must be idle.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpututor.checks.model import SpeedLimit
from gpututor.course.model import Exercise, Limits
from gpututor.grading.report import Status
from gpututor.hardware.scenario import Scenario
from gpututor.judge.author_code import load_code
from gpututor.judge.channel import WorkerSession
from gpututor.judge.isolation import Process
from gpututor.judge.timing.measure import measure
from gpututor.judge.workers import Worker, WorkerPool
from gpututor.judge.workers.pool import SpawnedWorkers
from gpututor.protocol.messages import MachineSpec

GIVEN = """\
import torch


def draw(seed, case):
    chance = torch.Generator().manual_seed(seed)
    size = (96, 128)[case % 2]
    return {"matrix": torch.randn(size, size, generator=chance) / size**0.5}
"""
CHECKS = """\
import torch

from gpututor.checks import parity


def reference(matrix):
    product = matrix
    for _ in range(20):
        product = torch.tanh(product @ matrix)
    return product


checks = [parity(reference, times=10)]
"""
SAME = """\
import torch


def chain(matrix):
    product = matrix
    for _ in range(20):
        product = torch.tanh(product @ matrix)
    return product
"""
SLOWER = (
    SAME
    + """\


def slower(matrix):
    product = matrix
    for _ in range(10):
        product = torch.tanh(product @ matrix)
    return chain_of_20(matrix)


chain_of_20, chain = chain, slower
"""
)
SUBMISSIONS = {"identical": (SAME, Status.PASSED), "1.5 × the work": (SLOWER, Status.TOO_SLOW)}
HOGS = 3
HOG = """\
import os, random, sys, time
if os.fork():
    os._exit(0)
os.setsid()
print(os.getpid(), flush=True)
os.close(1)
chance, end, parent = random.Random(int(sys.argv[1])), time.monotonic() + 3600, int(sys.argv[2])
while time.monotonic() < end and os.path.exists(f"/proc/{parent}"):
    busy_until = time.monotonic() + chance.uniform(0.005, 0.2)
    while time.monotonic() < busy_until:
        pass
    time.sleep(chance.uniform(0.005, 0.2))
"""


class KeptWorkers(WorkerPool):
    """A pool that reuses the same workers."""

    def __init__(self) -> None:
        super().__init__(SpawnedWorkers(Process()))
        self._idle: list[Worker] = []

    def warm(self, count: int = 1) -> None:
        super().warm(max(0, count - len(self._idle)))

    def take(self) -> Worker:
        return self._idle.pop() if self._idle else super().take()

    def release(self, worker: Worker) -> None:
        worker.running().__enter__()  # resume a suspended worker; the judge suspends it again
        worker.channel.begin(None, 1 << 16)
        WorkerSession(worker.channel).ask({"op": "leave"})
        self._idle.append(worker)


@contextlib.contextmanager
def hogs(number: int) -> Iterator[None]:
    """Run busy processes that are not this process's children: those would be suspended."""
    started: list[int] = []
    try:
        for seed in range(number):
            command = [sys.executable, "-c", HOG, str(seed), str(os.getpid())]
            started.append(int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
        yield
    finally:
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def make_exercise(folder: Path) -> Exercise:
    for name, text in {"given.py": GIVEN, "checks.py": CHECKS, "baseline.py": SAME}.items():
        (folder / name).write_text(text)
    texts = (folder, "A chain of products", "Multiply again and again.", 5, "function", "chain")
    return Exercise(1, 1, "chain", "benchmark", *texts, cases=2, devices=("cpu",), scenarios=(), limits=Limits(60.0))


def run(pool: WorkerPool, exercise: Exercise, kind: str, at_most: float, seed: int) -> dict[str, object]:
    """Time once; return the decision and the figures."""
    started = time.monotonic()
    limit = SpeedLimit("baseline.py", at_most, at_most)
    machine = MachineSpec(Scenario("the CPU", 0, (), ""), "cpu", 0)
    source, _ = SUBMISSIONS[kind]
    timing = measure(pool, exercise, machine, source, SAME, load_code(exercise), limit, seed)
    figures = {name: getattr(timing, name) for name in ("why", "ratio", "pairs", "calls")}
    return {"decision": str(timing.decision), **figures, "seconds": round(time.monotonic() - started, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60, help="number of runs of each kind in each noise")
    parser.add_argument("--noise", choices=("quiet", "hogs", "both"), default="both")
    parser.add_argument("--at-most", type=float, default=1.25)
    parser.add_argument("--log", type=Path, help="file that stores each run; a later call continues from it")
    options = parser.parse_args()
    lines = options.log.read_text().splitlines() if options.log and options.log.exists() else []
    done = [json.loads(line) for line in lines]
    noises = ("quiet", "hogs") if options.noise == "both" else (options.noise,)
    pool = KeptWorkers()
    with tempfile.TemporaryDirectory() as folder:
        exercise = make_exercise(Path(folder))
        try:
            for noise in noises:
                with hogs(HOGS if noise == "hogs" else 0):
                    for seed in range(options.runs):
                        for kind in SUBMISSIONS:
                            key = {"noise": noise, "kind": kind, "seed": seed}
                            if any(key.items() <= entry.items() for entry in done):
                                continue
                            done.append({**key, **run(pool, exercise, kind, options.at_most, seed)})
                            if options.log:
                                with options.log.open("a") as log:
                                    log.write(json.dumps(done[-1]) + "\n")
        finally:
            pool.kill_all()
    show([entry for entry in done if entry["noise"] in noises and entry["seed"] < options.runs])


def show(done: list[dict[str, Any]]) -> None:
    print(
        f"{'noise':<8}{'code':<16}{'runs':>5}{'right':>7}{'wrong':>7}{'inconcl.':>9}{'pairs':>7}{'seconds':>9}  ratios"
    )
    for noise, kind in dict.fromkeys((entry["noise"], entry["kind"]) for entry in done):
        ours = [entry for entry in done if (entry["noise"], entry["kind"]) == (noise, kind)]
        right = sum(entry["decision"] == SUBMISSIONS[kind][1] for entry in ours)
        open_ = sum(entry["decision"] == Status.INCONCLUSIVE for entry in ours)
        ratios = sorted(entry["ratio"] for entry in ours if entry["ratio"] is not None)
        spread = f"{ratios[0]:.2f} … {statistics.median(ratios):.2f} … {ratios[-1]:.2f}" if ratios else ""
        pairs, seconds = (statistics.median(entry[name] for entry in ours) for name in ("pairs", "seconds"))
        counted = f"{len(ours):>5}{right:>7}{len(ours) - right - open_:>7}{open_:>9}"
        print(f"{noise:<8}{kind:<16}{counted}{pairs:>7.0f}{seconds:>9.1f}  {spread}")


if __name__ == "__main__":
    main()

"""Isolated gradings per second, and growth of memory, compared with the naive way. Prints tables.

    python benchmarks/throughput.py [--gradings N] [--isolation process|bubblewrap] [--workers spare|"fork server"]
                                    [--lessons N ...] [--without N.M ...]

One judge, then two judges at once, grade the solutions of the shipped exercises without a speed limit on the virtual
GPU. Then two judges grade the solutions of all exercises. The naive way is a fresh Python for each solution. This
Python imports torch and the virtual GPU, runs the solution once, and checks nothing. The first verdict includes the
start of its judge. Memory is the resident memory of a judge and its fork server, after a tenth of the gradings and at
the end.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from classroom_runs import mib_of
from grading import grade, untimed

from gpututor import paths
from gpututor.course.loader import load_course
from gpututor.course.model import Exercise
from gpututor.grading.client import GradingClient
from gpututor.processes import descendants

NAIVE = """
import sys, torch, gpututor.devices.virtual.session
exec(compile(open(sys.argv[1]).read(), "solution.py", "exec"))
"""
NAIVE_ROUNDS = 6


def naive(exercises: list[Exercise], folder: Path) -> float:
    """Return gradings per second, one at a time."""
    start = time.perf_counter()
    for number in range(NAIVE_ROUNDS):
        path = folder / "solution.py"
        path.write_text(exercises[number % len(exercises)].solution)
        subprocess.run([sys.executable, "-c", NAIVE, str(path)], check=True, cwd=folder, capture_output=True)
    return NAIVE_ROUNDS / (time.perf_counter() - start)


def throughput(clients: list[GradingClient], exercises: list[Exercise], gradings: int) -> float:
    """Return gradings per second of all `clients` together."""
    turns: Iterator[int] = iter(range(gradings))
    taking = threading.Lock()
    broken: list[BaseException] = []

    def work(client: GradingClient) -> None:
        try:
            while not broken:
                with taking:
                    number = next(turns, None)
                if number is None:
                    return
                grade(client, exercises[number % len(exercises)])
        except BaseException as error:
            broken.append(error)

    start = time.perf_counter()
    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    return gradings / (time.perf_counter() - start)


def busy_s() -> float:
    """Return the seconds for which the machine's cores have worked, for any program: nobody reaps all workers."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split(None, 8)[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _servers(judge: int) -> list[int]:
    """Return the judge's lasting child processes: bubblewrap's own, and the fork server."""
    pids = []
    for pid in descendants(judge):
        if b"fork_server" in Path(f"/proc/{pid}/cmdline").read_bytes():
            pids.append(pid)
            if b"bwrap" not in Path(f"/proc/{pid}/comm").read_bytes():
                break
    return pids


def resident_mib(client: GradingClient) -> dict[str, int]:
    """Return MiB of the judge, and of its fork server if there is one."""
    assert client._judge is not None
    judge = client._judge.pid
    mib = {"judge": mib_of(judge)}
    if servers := _servers(judge):
        mib["fork server"] = max(map(mib_of, servers))
    return mib


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradings", type=int, default=100)
    parser.add_argument("--isolation", choices=("process", "bubblewrap"), default="bubblewrap")
    parser.add_argument("--workers", choices=("spare", "fork server"), default="fork server")
    parser.add_argument("--lessons", type=int, nargs="+", metavar="N", help="only the exercises of these lessons")
    parser.add_argument("--without", nargs="+", default=[], metavar="N.M", help="leave out these exercises")
    options = parser.parse_args()
    exercises = [
        exercise
        for exercise in load_course(paths.builtin_course()).exercises
        if not options.lessons or exercise.lesson_number in options.lessons
        if exercise.label not in options.without
    ]
    fast = untimed(exercises)

    begin = time.perf_counter()
    clients = [GradingClient(isolation=options.isolation, workers=options.workers) for _ in range(2)]
    try:
        grade(clients[0], fast[0])
        first = time.perf_counter() - begin
        for client, exercise in itertools.product(clients, exercises):
            grade(client, exercise)  # judges read each exercise's code once
        with tempfile.TemporaryDirectory() as folder:
            unit = naive(fast, Path(folder))
        tenth = max(1, options.gradings // 10)
        throughput(clients[:1], fast, tenth)
        early = resident_mib(clients[0])
        spent = busy_s()
        alone = throughput(clients[:1], fast, options.gradings - tenth)
        spent = (busy_s() - spent) / (options.gradings - tenth)
        late = resident_mib(clients[0])
        together = throughput(clients, fast, options.gradings)
        every = throughput(clients, exercises, options.gradings)
    finally:
        for client in clients:
            client.close()

    machine = f"{options.isolation}, {options.workers}, {os.cpu_count()} cores"
    print(f"{len(fast)} of {len(exercises)} exercises, {machine}\n")
    print(f"{'':<34}{'per second':>12}{'ratio':>8}")
    rates = {"naive: a fresh Python for each": unit, "one judge": alone, "two judges": together}
    for label, rate in {**rates, "two judges, the timed ones too": every}.items():
        print(f"{label:<34}{rate:>12.2f}{rate / unit:>8.1f}")
    print(f"\nfirst verdict of a new judge: after {first:.1f} s, {first * unit:.1f} times the naive way")
    print(f"processor time of one grading, of the whole machine: {spent * 1000:.0f} ms")
    print(f"\n{'resident memory':<34}{'early':>8}{'late':>12}{'growth':>9}")
    for label, before in early.items():
        print(f"{label:<34}{before:>4} MiB{late[label]:>8} MiB{late[label] - before:>5} MiB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ["GPUTUTOR_HOME"] = home
        main()

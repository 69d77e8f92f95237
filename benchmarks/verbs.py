"""Times of simple commands as whole processes, compared with a Python that does nothing.

Run it with `python benchmarks/verbs.py [ROUNDS]`. In every round each command runs once, in turn, so a slow moment
affects all of them. Prints the medians and their ratios. Nothing is asserted.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

COMMANDS: dict[str, list[str]] = {
    "python -c pass": ["-c", "pass"],
    "gpututor --version": ["-m", "gpututor.cli.main", "--version"],
    "gpututor list": ["-m", "gpututor.cli.main", "list"],
    "gpututor devices": ["-m", "gpututor.cli.main", "devices"],
    "gpututor hint 1.1": ["-m", "gpututor.cli.main", "hint", "1.1"],
}
BASELINE = "python -c pass"


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each round, by the command."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "GPUTUTOR_HOME": home}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as on a learner's machine: a package is compiled once
        for command in COMMANDS.values():  # fills the caches: bytecode, the devices, the database
            _elapsed_ms(command, environment)
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, command in COMMANDS.items():
                times[name].append(_elapsed_ms(command, environment))
    return times


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    times = measure(rounds)
    baseline_ms = statistics.median(times[BASELINE])
    print(f"{'':<20} {'median':>9} {'fastest':>9} {'slowest':>9} {'ratio':>6}   ({rounds} rounds)")
    for name, measured in times.items():
        median_ms = statistics.median(measured)
        figures = " ".join(f"{figure:>6.1f} ms" for figure in (median_ms, min(measured), max(measured)))
        print(f"{name:<20} {figures} {median_ms / baseline_ms:>6.1f}")


def _elapsed_ms(command: list[str], environment: dict[str, str]) -> float:
    """Return the milliseconds from starting the process to its end."""
    start, nowhere = time.perf_counter(), subprocess.DEVNULL
    whole = [sys.executable, *command]
    subprocess.run(whole, env=environment, stdin=nowhere, stdout=nowhere, stderr=subprocess.PIPE, check=True)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()

"""Entry point of a probe for bubblewrap: `python -I -m gpututor.judge.isolation.probe` prints its result as JSON.

It starts one process in bubblewrap. The app and the CLI run it, because they never import the judge.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache

from gpututor.errors import NotGradableHere
from gpututor.judge.isolation.bubblewrap import INSTEAD, TOO_SLOW, TRY_AGAIN, Bubblewrap, run

TIMEOUT_S = 120.0
"""Seconds for a cold import of torch from a slow disk."""


@dataclass(frozen=True)
class Probe:
    """Result of a probe."""

    works: bool
    title: str = ""
    """Title of the problem, such as `cuda: ` with CUDA's error; empty if there is none."""
    advice: str = ""
    devices: tuple[str, ...] = ()
    """Devices that computed a matrix product correctly: `cpu`, `cuda:0` …"""


def probe() -> Probe:
    """Start a worker's Python in bubblewrap, and compute on each device that it sees."""
    try:
        done = run(Bubblewrap().command("gpututor.worker.probe"), TIMEOUT_S)
        answer: dict[str, str] = json.loads(done.stdout.strip().rpartition("\n")[2])
    except NotGradableHere as error:
        return Probe(False, error.title, error.advice)
    except ValueError:
        words = done.stderr.strip().rpartition("\n")[2][-500:] or f"it ended with {done.returncode}"
        advice = TRY_AGAIN if done.returncode == TOO_SLOW else INSTEAD
        return Probe(False, f"A worker did not start in bubblewrap: {words}.", advice)
    problems = "; ".join(f"{device}: {problem}" for device, problem in answer.items() if problem)
    working = tuple(device for device, problem in answer.items() if not problem)
    return Probe(not problems, problems, INSTEAD if problems else "", working)


@cache
def _working() -> frozenset[str]:
    return frozenset(probe().devices)


def working(devices: Sequence[dict[str, object]], isolation: str) -> tuple[dict[str, object], ...]:
    """Return the devices that compute inside `isolation`, probed once: a driver may show others, which fail there."""
    if isolation != "bubblewrap" or all(device["kind"] == "cpu" for device in devices):
        return tuple(devices)
    return tuple(device for device in devices if device["kind"] == "cpu" or device["name"] in _working())


def main() -> None:
    print(json.dumps(asdict(probe())))


if __name__ == "__main__":
    main()

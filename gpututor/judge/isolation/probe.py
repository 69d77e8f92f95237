"""Prints whether bubblewrap works here, as JSON: `python -I -m gpututor.judge.isolation.probe`.

It starts one process in it. A person's own process asks in this way, because it never imports the judge.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from gpututor.errors import NotGradableHere
from gpututor.judge.isolation.bubblewrap import INSTEAD, Bubblewrap

TIMEOUT_S = 120.0
"""A cold import of torch from a slow disk takes a while."""


@dataclass(frozen=True)
class Probe:
    """What was found."""

    works: bool
    title: str = ""
    """What is wrong; empty where nothing is."""
    advice: str = ""
    devices: tuple[str, ...] = ()
    """On which a matrix product was right in there: `cpu`, `cuda:0` …"""


def probe() -> Probe:
    """Start a worker's Python in bubblewrap, and compute on each device that it sees."""
    try:
        done = subprocess.run(
            Bubblewrap().command("gpututor.worker.probe"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
        )
        said: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    except NotGradableHere as error:
        return Probe(False, error.title, error.advice)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Probe(False, f"A worker did not start in bubblewrap: {error}", INSTEAD)
    except ValueError:
        words = done.stderr.strip().rpartition("\n")[2][-500:] or f"it ended with {done.returncode}"
        return Probe(False, f"A worker did not start in bubblewrap: {words}", INSTEAD)
    troubles = "; ".join(f"{device}: {trouble}" for device, trouble in said.items() if trouble)
    working = tuple(device for device, trouble in said.items() if not trouble)
    return Probe(not troubles, troubles, INSTEAD if troubles else "", working)


@cache
def _working() -> frozenset[str]:
    return frozenset(probe().devices)


def working(devices: Sequence[dict[str, object]], isolation: str) -> tuple[dict[str, object], ...]:
    """Those of a worker's `devices` on which it can compute inside `isolation`. Asked once in a process's life.

    An accelerator that a driver shows, and that cannot be reached from bubblewrap, is none there.
    """
    if isolation != "bubblewrap" or all(device["kind"] == "cpu" for device in devices):
        return tuple(devices)
    return tuple(device for device in devices if device["kind"] == "cpu" or device["name"] in _working())


def main() -> None:
    """One JSON object on stdout."""
    print(json.dumps(asdict(probe())))


if __name__ == "__main__":
    main()

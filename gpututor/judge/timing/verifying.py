"""Verifying the results of timed calls by the exercise's own checks, within an allowance of time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from gpututor.checks.core import Call, Check, Finding, Machine, Run
from gpututor.errors import CourseError
from gpututor.judge.timing.pairs import Inputs
from gpututor.trace.columns import Trace

ALLOWANCE_S = 30.0
"""For verifying; references run in float64 on the CPU, which may be far slower than the device."""


class Verifier:
    """Looks at every result while the allowance lasts; afterwards at one of each batch, drawn by chance.

    The draw is made when the results are held: whoever is wrong in a tenth of the calls is seen in two of three timings
    even then.
    """

    def __init__(
        self,
        checks: Sequence[Check],
        machine: Machine,
        entry: str,
        chance: random.Random,
        allowance_s: float = ALLOWANCE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `CourseError` where no check can verify timed calls."""
        self._checks = [check for check in checks if check.results_only and check.applies(machine)]
        if not self._checks:
            raise CourseError(
                "The exercise has a speed check, and none that verifies results on a real device.",
                "Add parity(), structure() or value().",
            )
        self._machine = machine
        self._entry = entry
        self._chance = chance
        self._left_s = allowance_s
        self._now_s = now_s
        self._call_s = 0.0
        self.verified = 0
        self.calls = 0

    def find(self, inputs: Inputs, outputs: Sequence[Any], source: str) -> Finding | None:
        """What is wrong with the results of one batch, as far as they are looked at."""
        calls = [Call(drawn, {}, output, Trace()) for drawn, output in zip(inputs, outputs, strict=True)]
        order = self._chance.sample(range(len(calls)), len(calls))
        self.calls += len(calls)
        for position, index in enumerate(order):
            if position and self._call_s > self._left_s:
                break
            began = self._now_s()
            finding = self._wrong(Run(self._machine, (calls[index],), source, self._entry))
            self._call_s = self._now_s() - began
            self._left_s -= self._call_s
            self.verified += 1
            if finding is not None:
                return finding
        return None

    def _wrong(self, run: Run) -> Finding | None:
        return next(filter(None, (check.find(run) for check in self._checks)), None)

"""What one run has to find out, so that every check that applies on its machine can be answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpututor.checks.core import Check, Machine


@dataclass(frozen=True)
class Plan:
    """How often each case is called, and what is brought back besides results and traces."""

    repeats: int = 1
    wants: tuple[str, ...] = ()
    """See `Check.wants`."""
    files: tuple[str, ...] = ()
    """Names of files, without folders, that are brought back after each call."""
    opens: tuple[tuple[str, str], ...] = ()
    """See `Check.opens`."""
    baselines: tuple[str, ...] = ()
    """Files of the exercise's folder that are run too, on the same inputs, by workers of their own."""


def plan_for(checks: Sequence[Check], machine: Machine) -> Plan:
    """The least that answers all of `checks` that apply on `machine`."""
    applying = [check for check in checks if check.applies(machine)]
    limits = [check.speed for check in applying if check.speed is not None]
    timed = [limit.baseline for limit in limits] if machine.virtual else []
    return Plan(
        repeats=max((check.repeats for check in applying), default=1),
        wants=tuple(sorted({want for check in applying for want in check.wants})),
        files=tuple(dict.fromkeys(name for check in applying for name in check.files)),
        opens=tuple(dict.fromkeys(pair for check in applying for pair in check.opens)),
        baselines=tuple(dict.fromkeys([*timed, *(name for check in applying for name in check.baselines)])),
    )

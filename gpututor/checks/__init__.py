"""The names that exercise authors use in checks.py: functions that make checks, and the types in their signatures."""

from gpututor.checks.after_call import after_call
from gpututor.checks.compilations import compilations
from gpututor.checks.files import Wanted, files
from gpututor.checks.identity import aliasing, identity, unmodified
from gpututor.checks.launches import launches
from gpututor.checks.measurement import UNKNOWN, Taken, copies, enclosed, launch_to_end, measurement, taken
from gpututor.checks.memory import memory
from gpututor.checks.model import Call, Check, Finding, Machine, Run
from gpututor.checks.parity import parity
from gpututor.checks.placement import placement
from gpututor.checks.precision import precision
from gpututor.checks.processes import collectives, processes
from gpututor.checks.source import attribute, called, imported, in_loop, source, within
from gpututor.checks.speed import speed
from gpututor.checks.streams import overlap, races
from gpututor.checks.structure import structure
from gpututor.checks.transfers import syncs, transfers
from gpututor.checks.triton_kernels import coalesced, in_bounds, no_races, programs, traffic
from gpututor.checks.value import value

__all__ = [
    "UNKNOWN",
    "Call",
    "Check",
    "Finding",
    "Machine",
    "Run",
    "Taken",
    "Wanted",
    "after_call",
    "aliasing",
    "attribute",
    "called",
    "coalesced",
    "collectives",
    "compilations",
    "copies",
    "enclosed",
    "files",
    "identity",
    "imported",
    "in_bounds",
    "in_loop",
    "launch_to_end",
    "launches",
    "measurement",
    "memory",
    "no_races",
    "overlap",
    "parity",
    "placement",
    "precision",
    "processes",
    "programs",
    "races",
    "source",
    "speed",
    "structure",
    "syncs",
    "taken",
    "traffic",
    "transfers",
    "unmodified",
    "value",
    "within",
]

"""What became of a solution's mutants: killed by a check, without any effect, surviving, or excused by the author."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpututor.authoring.faults import Fault
from gpututor.authoring.mutants import MARK, Mutant
from gpututor.course.exercise import Exercise
from gpututor.grading.report import Outcome, Report


@dataclass(frozen=True)
class Tally:
    """The mutants of one exercise, or of several, by what became of them."""

    killed: int = 0
    excused: int = 0
    survivors: tuple[Mutant, ...] = ()
    """Those that pass, and for which the manifest has no excuse."""
    idle: int = 0
    """Those that changed nothing that could be noticed, or could not be made; counted nowhere else."""

    @property
    def total(self) -> int:
        return self.killed + self.excused + len(self.survivors)

    @property
    def share(self) -> float:
        """Of those that changed something: how many a check noticed; 1 where there are none."""
        return self.killed / self.total if self.total else 1.0

    def __add__(self, other: Tally) -> Tally:
        survivors = self.survivors + other.survivors
        return Tally(self.killed + other.killed, self.excused + other.excused, survivors, self.idle + other.idle)

    def __str__(self) -> str:
        """`12 of 13 mutants killed (92 %), 1 excused`"""
        if not self.total:
            return "no mutants"
        words = f"{self.killed} of {self.total} mutants killed ({100 * self.killed // self.total} %)"
        words += f", {self.excused} excused" if self.excused else ""
        return words + (f", {len(self.survivors)} still pass" if self.survivors else "")

    def to_json(self) -> dict[str, Any]:
        survivors = [{"line": mutant.line, "change": mutant.change} for mutant in self.survivors]
        return {
            "killed": self.killed,
            "excused": self.excused,
            "survivors": survivors,
            "idle": self.idle,
            "share": round(self.share, 4),
        }


def tally_of(exercise: Exercise, tried: Sequence[tuple[Mutant, Report]], solution: Report) -> Tally:
    """`solution`: its report on the same inputs."""
    excuses = {excuse.change for excuse in exercise.excused_mutants}
    killed = excused = idle = 0
    survivors: list[Mutant] = []
    for mutant, report in tried:
        if _is_idle(mutant, report, solution):
            idle += 1
        elif report.outcome is not Outcome.PASSED:
            killed += 1
        elif mutant.change in excuses:
            excused += 1
        else:
            survivors.append(mutant)
    return Tally(killed, excused, tuple(sorted(survivors, key=lambda mutant: mutant.line)), idle)


def mutant_faults(
    exercise: Exercise, tried: Sequence[tuple[Mutant, Report]], solution: Report, tally: Tally
) -> Iterator[Fault]:
    """Survivors, excuses that excuse nothing, and changes at which the grader broke."""
    for mutant in tally.survivors:
        advice = (
            "Let a check notice it; or, where it is harmless, say so in exercise.toml: "
            f'[[excused_mutant]] with change = "{mutant.change}" and a reason.'
        )
        file = exercise.folder / "solution.py"
        yield Fault(file, f"with this change it still passes: {mutant.change}", advice, line=mutant.line)
    passing = {
        mutant.change
        for mutant, report in tried
        if report.outcome is Outcome.PASSED and not _is_idle(mutant, report, solution)
    }
    for position, excuse in enumerate(exercise.excused_mutants):
        if excuse.change not in passing:
            near = difflib.get_close_matches(excuse.change, [mutant.change for mutant in tally.survivors], n=1)
            advice = (
                f"Did you mean {near[0]!r}?" if near else "Remove it: a check notices that change, or none is made."
            )
            problem = f"no change that still passes is called {excuse.change!r}"
            key = f"excused_mutant[{position}].change"
            yield Fault(exercise.folder / "exercise.toml", problem, advice, key=key)
    for mutant, report in tried:
        if report.outcome is Outcome.INTERNAL_ERROR:
            problem = f"the grader broke at this change: {mutant.change}"
            file, details = exercise.folder / "solution.py", (report.reason,)
            yield Fault(file, problem, "Look for what checks.py does not expect.", line=mutant.line, details=details)


def _is_idle(mutant: Mutant, report: Report, solution: Report) -> bool:
    """The change changed nothing: no device did anything else for it; or the value has nothing of the kind."""
    if mutant.adds and any(f"has no attribute '{mutant.adds}'" in run.traceback for run in report.runs):
        return True
    if report.outcome is not Outcome.PASSED:
        return False
    if mutant.marks:
        return not any(MARK in run.output for run in report.runs)
    return bool(mutant.adds) and _work(report) == _work(solution)


def _work(report: Report) -> list[tuple[int, int, int]]:
    return [(run.kernels, run.transfers, run.synchronisations) for run in report.runs]

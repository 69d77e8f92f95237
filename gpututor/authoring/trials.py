"""Trials: the sources that `gpututor verify` grades, and the required outcome of each."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from gpututor.authoring.lint import named_check
from gpututor.authoring.mutants import Mutant, mutants_of
from gpututor.authoring.pool import Examined
from gpututor.authoring.problems import Problem
from gpututor.course.model import Exercise
from gpututor.grading.report import BROKEN_CHECK, Outcome, Report, Status
from gpututor.grading.report_text import count

CONSTANTS: tuple[object, ...] = (None, True, 0, 1.0, "cuda:0", [], {}, ())
"""Return values of successive calls."""

SPOILED = {"zeros": "torch.zeros_like(tensor)", "ones": "torch.ones_like(tensor)", "flipped": "flipped(tensor)"}
"""Replacements for each tensor of a result. With `zeros`, numbers become 0 too."""

REPLACED = "gpututor: the result was replaced"
"""Output of a submission for each call whose result it changes."""

_SPOIL = """

import numpy
import torch


def spoil(part):
    if isinstance(part, torch.nn.Module):
        for tensor in part.state_dict().values():
            tensor.copy_(change(tensor))
        return part
    if isinstance(part, dict):
        return {key: spoil(inner) for key, inner in part.items()}
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(spoil, part))
    if isinstance(part, (list, tuple)):
        return type(part)(map(spoil, part))
    if isinstance(part, numpy.ndarray):
        return change(torch.tensor(part)).numpy()
    if isinstance(part, torch.Tensor):
        return change(part)
    if HOW == "zeros" and isinstance(part, (int, float)) and part and not isinstance(part, bool):
        REPLACED.append(part)
        return type(part)(0)
    return part


def flipped(tensor):
    if tensor.numel() > 1:
        return tensor.flip([*range(tensor.dim())])
    return tensor.logical_not() if tensor.dtype == torch.bool else -tensor - 1


def change(tensor):
    if tensor.numel():
        REPLACED.append(tensor)
    return CHANGED


def then_spoil(function):
    def entry(*values, **arguments):
        REPLACED.clear()
        spoiled = spoil(function(*values, **arguments))
        if REPLACED:
            print(WORDS)
        return spoiled

    return entry


HOW, REPLACED, WORDS = {how!r}, [], {words!r}
ENTRY = then_spoil(ENTRY)
"""

_FIRST = """

import torch


def is_other(result, first):
    if isinstance(result, torch.Tensor) and isinstance(first, torch.Tensor):
        if (result.shape, result.dtype) == (first.shape, first.dtype):
            return not torch.equal(result.detach().cpu(), first.detach().cpu())
    return result is not first


def then_first(function):
    def entry(*values, **arguments):
        passed, result = [*values, *arguments.values()], function(*values, **arguments)
        if passed and is_other(result, passed[0]):
            print(WORDS)
            return passed[0]
        return result

    return entry


WORDS = {words!r}
ENTRY = then_first(ENTRY)
"""


def constants(entry: str) -> str:
    """Return a submission that returns the next of `CONSTANTS` in each call."""
    returns = "\n".join(
        f"    if CALLS[0] % {len(CONSTANTS)} == {number}: return {constant!r}"
        for number, constant in enumerate(CONSTANTS)
    )
    return f"CALLS = [-1]\n\n\ndef {entry}(*args, **kwargs):\n    CALLS[0] += 1\n{returns}\n"


def _changed(solution: str, entry: str, code: str) -> str:
    """Return a solution that does its work, but whose results `code` replaces."""
    head = solution.partition("\nif __name__")[0]
    return head + code.replace("{words!r}", repr(REPLACED)).replace("ENTRY", entry)


SEEDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 2**32 - 1)
"""Seeds that the solution has to pass with; all other trials use the first."""
SLOW_SHARE = 0.5
"""Share of the time limit above which a solution leaves too little time for slower machines and submissions."""
BUILTIN_CHECKS = ("loads", "runs", "prints", "unmodified", "races")
"""Checks of every exercise; wrong solutions may name them."""
_REJECTED = (Outcome.FAILED, Outcome.ERROR, Outcome.OUT_OF_MEMORY, Outcome.TOO_SLOW)
_SHOWN_VERDICTS = 3
_SHOWN_TRACEBACK_LINES = 6

Judge = Callable[[Report], Iterable[Problem]]
TrialResult = Literal["kept", "not applicable", "not kept"]
"""`not applicable`: a wrong solution passes on a GPU model on which its named check does not apply."""


@dataclass(frozen=True)
class Trial:
    """A source to grade as a submission to an exercise."""

    name: str
    """`solution, seed 1`, `wrong/row_by_row.py`, …"""
    source: str
    judge: Judge
    seed: int = SEEDS[0]
    after_solution: bool = False
    """True if it is skipped when the solution does not pass."""
    mutant: Mutant | None = None
    gpu: str | None = None
    """Model of the virtual GPU; None for the model of each scenario."""
    counts: Literal["right", "wrong", ""] = ""
    """`right` for a submission that must pass, `wrong` for a wrong solution; the summary counts both."""

    def result(self, report: Report) -> TrialResult:
        """Return the result of a counted submission."""
        if self.counts == "right":
            return "kept" if report.outcome is Outcome.PASSED else "not kept"
        if self.gpu is not None and report.outcome is Outcome.PASSED and not _applies(named_check(self.source), report):
            return "not applicable"
        return "kept" if report.outcome in _REJECTED else "not kept"

    @property
    def file(self) -> str:
        """Name of the submission, without seed and model."""
        return self.name.partition(", ")[0]


def first_trial(exercise: Exercise) -> Trial:
    """Return the trial of the solution with the first seed."""
    judge = partial(_solution, exercise, SEEDS[0])
    return Trial(f"solution, seed {SEEDS[0]}", exercise.solution, judge, counts="right")


def further_trials(exercise: Exercise, examined: Examined, *, with_mutants: bool) -> Iterator[Trial]:
    """Yield all other trials. Raises `CourseError` for an unreadable file, `SyntaxError` for a broken solution."""
    solution = exercise.solution
    yield Trial("starter", exercise.starter, partial(_starter, exercise))
    for path in exercise.right_solutions:
        name = f"right/{path.name}"
        yield Trial(name, exercise.file(name), partial(_passes, exercise, path, SEEDS[0]), counts="right")
    for path in exercise.wrong_solutions:
        name = f"wrong/{path.name}"
        source = exercise.file(name)
        yield Trial(name, source, partial(_wrong, exercise, path, named_check(source)), counts="wrong")
    for name in examined.baselines:
        yield Trial(name, exercise.file(name), partial(_baseline, exercise, name, examined.of_values))
    if exercise.entry:
        yield Trial("constants", constants(exercise.entry), partial(_constants, exercise))
        yield from _other_results(exercise, examined)
    for mutant in mutants_of(solution) if with_mutants else ():
        name = f"{mutant.change}, line {mutant.line}"
        yield Trial(name, mutant.source, lambda report: (), SEEDS[0], True, mutant)  # `Verifier` judges them together
    for seed in SEEDS[1:]:
        judge = partial(_solution, exercise, seed)
        yield Trial(f"solution, seed {seed}", solution, judge, seed, after_solution=True, counts="right")


def _other_results(exercise: Exercise, examined: Examined) -> Iterator[Trial]:
    """Yield the solution with other results; ones and flipped values only where a check allows a tolerance."""
    solution, entry = exercise.solution, exercise.entry
    is_tolerant = bool(examined.of_values.intersection(examined.tolerant))
    for how in SPOILED if is_tolerant else ("zeros",):
        name = f"{how} instead of results"
        judges: list[Judge] = [partial(_spoiled, exercise, how, examined.of_values)] if is_tolerant else []
        judges += [partial(_earns_nothing, exercise, name)] if how == "zeros" else []
        source = _changed(solution, entry, _SPOIL.replace("CHANGED", SPOILED[how]).replace("{how!r}", repr(how)))
        yield Trial(name, source, partial(_each_of, judges), SEEDS[0], True)
    name = "the first argument instead of results"
    judge = partial(_earns_nothing, exercise, name)
    yield Trial(name, _changed(solution, entry, _FIRST), judge, SEEDS[0], True)


def trials_on(models: Iterable[str], exercise: Exercise) -> Iterator[Trial]:
    """Yield the solution, the right variants and the wrong solutions on each of `models` but the exercise's own.

    The right ones must pass there. A wrong solution must fail; on another GPU the first check to fail may differ.
    If scenarios name several models, only the right ones are tried.
    """
    own = {scenario.gpu for scenario in exercise.scenarios if scenario.gpus}
    files = [exercise.folder / "solution.py", *exercise.right_solutions]
    for model in models if own else ():
        if own == {model}:
            continue
        for path in files:
            name = str(path.relative_to(exercise.folder))
            judge = partial(_passes, exercise, path, SEEDS[0], model=model)
            words = f"{name.removesuffix('.py') if name == 'solution.py' else name}, {model}"
            yield Trial(words, exercise.file(name), judge, SEEDS[0], True, gpu=model, counts="right")
        # Where scenarios compare GPU models, a mistake on one of them may be right on another.
        for path in exercise.wrong_solutions if len(own) == 1 else ():
            name = f"wrong/{path.name}"
            judge = partial(_wrong_on, path, named_check(exercise.file(name)), model)
            yield Trial(f"{name}, {model}", exercise.file(name), judge, SEEDS[0], True, gpu=model, counts="wrong")


def examined_problems(exercise: Exercise, examined: Examined) -> Iterator[Problem]:
    """Yield problems of the checks themselves."""
    checks, given = exercise.folder / "checks.py", exercise.folder / "given.py"
    for sentence in examined.weak:
        advice = "Draw inputs that differ more, or allow less: times= and inside= of parity()."
        yield Problem(checks, f"a wrong result is accepted, or almost accepted. {sentence}", advice)
    for name in examined.untried:
        problem = f"{name}: every wrong result that was tried is the right one"
        yield Problem(checks, problem, "Draw inputs whose result is neither zeros, nor ones, nor an unchanged input.")
    for case in examined.unsteady:
        advice = "Draw everything from torch.Generator().manual_seed(seed * 10 + case)."
        yield Problem(given, f"draw() gives other values each time, with the same seed (case {case})", advice)
    if examined.fixed and not examined.unsteady:
        cases = ", ".join(map(str, examined.fixed))
        problem = (
            f"draw() gives the same inputs with every seed ({'case' if len(examined.fixed) == 1 else 'cases'} {cases})"
        )
        yield Problem(given, problem, "Seed the generator: torch.Generator().manual_seed(seed * 10 + case).")
    for name in examined.unused:
        problem = f"neither the solution nor a right variant uses {name!r}"
        yield Problem(exercise.folder / "exercise.toml", problem, "Take it out of the list.", key="allowed_names")
    known = {*examined.checks, *BUILTIN_CHECKS}
    named = {path: named_check(exercise.file(f"wrong/{path.name}")) for path in exercise.wrong_solutions}
    for path, name in named.items():
        if examined.checks and name and name not in known:
            advice = f"Name the check that it fails first: {', '.join((*examined.checks, *BUILTIN_CHECKS))}."
            yield Problem(path, f"the exercise has no check {name!r}", advice, line=1)
    if unnamed := [name for name in examined.checks if name not in (*named.values(), *BUILTIN_CHECKS)]:
        problem = f"no wrong solution fails first on {', '.join(unnamed)}"
        yield Problem(checks, problem, "Write a wrong solution for each, to show that it can fail.", is_note=True)


def failed_first(report: Report) -> dict[str, str]:
    """Return the first failed check of each scenario that has one."""
    failed: dict[str, str] = {}
    for verdict in report.verdicts:
        if verdict.status.is_failure:
            failed.setdefault(verdict.scenario, verdict.check)
    return failed


def describe_failure(report: Report) -> tuple[str, ...]:
    """Return the lines that describe a failure."""
    lines = [f"{report.outcome}: {report.reason}" if report.reason else str(report.outcome)]
    findings = [verdict for verdict in report.verdicts if verdict.status.is_finding]
    for verdict in findings[:_SHOWN_VERDICTS]:
        at = f", line {verdict.line}" if verdict.line is not None else ""
        lines.append(f"{verdict.scenario}: {verdict.check} {verdict.status}{at}")
        lines += [f"  expected {verdict.expected}", f"  got {verdict.got}"]
    if len(findings) > _SHOWN_VERDICTS:
        lines.append(f"and {count(len(findings) - _SHOWN_VERDICTS, 'more verdict')}")
    traceback = next((run.traceback for run in report.runs if run.traceback), "")
    lines += traceback.rstrip().splitlines()[-_SHOWN_TRACEBACK_LINES:]
    return (*lines, *(f"to look at: {suspicion}" for suspicion in report.suspicions))


def _passes(exercise: Exercise, file: Path, seed: int, report: Report, model: str = "") -> Iterator[Problem]:
    if report.outcome is not Outcome.PASSED:
        name = file.relative_to(exercise.folder)
        on = f" --gpu {shlex.quote(model)}" if model else ""
        again = f"`gpututor grade {exercise.slug} --file {name} --device virtual{on} --seed {seed}` shows all of it."
        where = f" on {model}" if model else ""
        yield Problem(file, f"it does not pass{where}, with seed {seed}", again, details=describe_failure(report))
        return
    for note in report.source_notes:
        advice = f"Do without it, or add {note.name!r} to `allowed_names` in exercise.toml."
        yield Problem(file, f"it {note.sentence}: {note.name}", advice, line=note.line)
    graded = [run.scenario for run in report.runs]
    if missing := [scenario.name for scenario in exercise.scenarios if scenario.name not in graded]:
        yield Problem(file, f"it was not graded in: {', '.join(missing)}", "Run `gpututor doctor`.")


def _solution(exercise: Exercise, seed: int, report: Report) -> Iterator[Problem]:
    yield from _passes(exercise, exercise.folder / "solution.py", seed, report)
    if report.outcome is not Outcome.PASSED:
        return
    took_s = (report.elapsed_s - report.waited_s) / max(1, len(report.runs))
    if took_s > SLOW_SHARE * exercise.limits.wall_s and seed == SEEDS[0]:
        problem = f"the solution takes {took_s:.1f} s per scenario, of {exercise.limits.wall_s:g} s allowed"
        advice = "Make the inputs smaller, or give it a larger wall_s under [limits]."
        yield Problem(exercise.folder / "exercise.toml", problem, advice, key="limits.wall_s", is_note=True)


def _starter(exercise: Exercise, report: Report) -> Iterator[Problem]:
    file = exercise.folder / "starter.py"
    if report.outcome is Outcome.PASSED:
        yield Problem(file, "the starter passes", "Remove what learners have to write, or add a check for it.")
    elif report.outcome not in _REJECTED:
        advice = "It should run, and its report should name what is missing."
        yield Problem(file, "the starter is not graded", advice, details=describe_failure(report))
    yield from _broken_checks(file, report)


def _broken_checks(file: Path, report: Report) -> Iterator[Problem]:
    for name, got in {
        verdict.check: verdict.got for verdict in report.verdicts if verdict.expected == BROKEN_CHECK
    }.items():
        advice = "Let checks.py give a verdict on it, or let the check need another one: needs=(...)."
        yield Problem(file, f"the check {name} breaks on it", advice, details=(got,))


def _wrong(exercise: Exercise, file: Path, named: str, report: Report) -> Iterator[Problem]:
    failed = failed_first(report)
    if report.outcome is Outcome.PASSED:
        yield Problem(file, "it passes", f"Add a check that detects the mistake, or fix {named}.", line=1)
        return
    if others := sorted(set(failed.values()) - {named}) or ([] if failed else ["nothing"]):
        scenarios = ", ".join(scenario for scenario, check in failed.items() if check != named)
        where = f" ({scenarios})" if scenarios and len(exercise.scenarios) > 1 else ""
        problem = f"it fails first on {', '.join(others)}{where}, not on {named}"
        advice = "Put the check that names the mistake first, name the other one, or fix the check."
        yield Problem(file, problem, advice, line=1, details=describe_failure(report))
        return
    if report.suspicions:
        yield Problem(file, "its outcome is `needs review`", "Show the mistake alone.", details=report.suspicions)
    yield from _broken_checks(file, report)
    verdict = report.first_failure
    assert verdict is not None
    words = {"expected": verdict.expected, "got": verdict.got, "why": verdict.why, "advice": verdict.advice}
    if missing := [name for name, text in words.items() if not text]:
        advice = f"Give the check {named} why= and advice= with sentences for this exercise."
        yield Problem(file, f"its report lacks: {', '.join(missing)}", advice, details=describe_failure(report))
    if verdict.line is None:
        advice = f"Let the check {named} find the line, or write the mistake so that a single line causes it."
        yield Problem(file, "its report does not name the line", advice, details=describe_failure(report))


def _wrong_on(file: Path, named: str, model: str, report: Report) -> Iterator[Problem]:
    """Expect a failure, unless the check that the file names does not apply on this model."""
    if report.outcome is Outcome.PASSED and _applies(named, report):
        advice = "Make the inputs larger until the mistake shows on every GPU, or check for it in the trace."
        yield Problem(file, f"it passes on {model}", advice, line=1)


def _applies(check: str, report: Report) -> bool:
    return check in {verdict.check for verdict in report.verdicts}


def _baseline(exercise: Exercise, name: str, of_values: frozenset[str], report: Report) -> Iterator[Problem]:
    """Report a baseline whose values are wrong; it may be slow, or copy too much."""
    wrong = [
        verdict
        for verdict in report.verdicts
        if verdict.status.is_failure and (verdict.check in of_values or verdict.check in ("loads", "runs"))
    ]
    if wrong or report.outcome is Outcome.INTERNAL_ERROR:
        checks = ", ".join(dict.fromkeys(verdict.check for verdict in wrong)) or str(report.outcome)
        advice = "Fix it: other files are compared with it."
        yield Problem(
            exercise.folder / name, f"its values are not right: {checks}", advice, details=describe_failure(report)
        )


def _constants(exercise: Exercise, report: Report) -> Iterator[Problem]:
    if report.outcome not in _REJECTED:
        advice = "Add a check of the values, and let each call of a grading expect different values."
        problem = "a function that returns None, True, 0, 1.0, 'cuda:0', [] and so on is not rejected"
        yield Problem(exercise.folder / "checks.py", problem, advice, details=describe_failure(report))


def _spoiled(exercise: Exercise, how: str, of_values: frozenset[str], report: Report) -> Iterator[Problem]:
    by_value = any(verdict.check in of_values for verdict in report.verdicts if verdict.status.is_failure)
    if report.outcome not in _REJECTED or not (by_value or report.outcome is Outcome.ERROR):
        values = how if how == "flipped" else f"all {how}"
        problem = f"no check of values rejects the solution's results when they are {values}"
        advice = "Let a check of values cover every part of the result, and draw inputs that differ in every element."
        yield Problem(exercise.folder / "checks.py", problem, advice, details=describe_failure(report))


def _earns_nothing(exercise: Exercise, name: str, report: Report) -> Iterator[Problem]:
    """Report checks that give points for results that were replaced."""
    if not report.points or not any(REPLACED in run.output for run in report.runs):
        return
    passed = {verdict.check: True for verdict in report.verdicts if verdict.of}
    passed |= {verdict.check: False for verdict in report.verdicts if verdict.status is not Status.PASSED}
    checks = ", ".join(check for check, is_passed in passed.items() if is_passed)
    problem = f"the solution with {name} earns {report.points:g} of {report.of:g} points: {checks}"
    advice = 'Declare kind="values" for the check that detects the wrong result, or let these checks name it in needs=.'
    yield Problem(exercise.folder / "checks.py", problem, advice, details=describe_failure(report))


def _each_of(judges: Iterable[Judge], report: Report) -> Iterator[Problem]:
    for judge in judges:
        yield from judge(report)

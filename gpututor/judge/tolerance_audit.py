"""Are an exercise's checks sound? A program for authors: `python -m gpututor.judge.tolerance_audit`.

Reads a line of JSON for each exercise: `{"folder": …}`. Answers with a line of JSON:

- `checks`: for each its name, whether it looks at results only (`of_values`) and is `tolerant`, and its `baselines`;
- `weak`: a sentence for each nonsense that a check of values would accept, or nearly;
- `untried`: the checks of values on which no nonsense could be tried;
- `unsteady`: the cases for which `draw` gives other inputs each time, though the seed is the same;
- `fixed`: the cases for which `draw` gives the same inputs, though the seed is another;
- `unused`: the names of `allowed_names` that neither the solution nor a right variant uses;
- `error`: null, or `title` and `advice` of what is broken in the exercise.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from gpututor.checks.parity import leaves
from gpututor.checks.tolerance_audit import tolerances, weakest
from gpututor.course.loader import load_exercise
from gpututor.course.model import Exercise
from gpututor.errors import CourseError
from gpututor.judge.author_code import ExerciseCode, draw_inputs, load_code
from gpututor.judge.source_review import names_of

SEEDS = (1, 2, 2**32 - 1)
OTHER_SEEDS = (*SEEDS, 3, 5, 8)
"""Compared with each other: a single label of two classes is the same with two of them by chance."""


def examined(folder: Path) -> dict[str, Any]:
    """Return what there is to say about the exercise in `folder`; see above."""
    lists: tuple[str, ...] = ("checks", "weak", "untried", "unsteady", "fixed", "unused")
    answer: dict[str, Any] = {**{name: [] for name in lists}, "error": None}
    try:
        exercise = load_exercise(folder)
        code = load_code(exercise)
        answer["checks"] = [
            {
                "name": check.name,
                "of_values": check.results_only,
                "tolerant": check.tolerance is not None,
                "baselines": sorted({*check.baselines, *([check.speed.baseline] if check.speed else [])}),
            }
            for check in code.checks
        ]
        answer["unsteady"] = [case for case in range(exercise.cases) if not _is_steady(code, folder, case)]
        answer["fixed"] = _fixed_cases(code, folder, exercise.cases)
        answer["unused"] = _unused(exercise)
        tried = [one for seed in SEEDS for one in tolerances(code.checks, _cases(code, folder, seed, exercise.cases))]
        answer["weak"] = [one.sentence for one in weakest(one for one in tried if one.weak)]
        tolerant = [check.name for check in code.checks if check.tolerance is not None]
        told_apart = {one.check for one in tried if not one.excused}
        compared = {one.check for one in tried}
        answer["untried"] = [name for name in tolerant if name in compared - told_apart]
    except CourseError as error:
        answer["error"] = {"title": error.title, "advice": error.advice}
    return answer


def _cases(code: ExerciseCode, folder: Path, seed: int, cases: int) -> list[dict[str, Any]]:
    """Return the inputs of one grading."""
    return [draw_inputs(code, folder, seed + case, case) for case in range(cases)]


def _unused(exercise: Exercise) -> list[str]:
    """Names that the manifest allows and no right file needs."""
    right = [exercise.solution, *(exercise.file(f"right/{path.name}") for path in exercise.right_solutions)]
    used = frozenset[str]().union(*map(names_of, right))
    return [name for name in exercise.allowed_names if name not in used]


def _is_steady(code: ExerciseCode, folder: Path, case: int) -> bool:
    """Return True if the same seed gives the same inputs."""
    first, second = (draw_inputs(code, folder, SEEDS[0] + case, case) for _ in range(2))
    return _same(first, second)


def _fixed_cases(code: ExerciseCode, folder: Path, cases: int) -> list[int]:
    """Return the cases with tensors that every seed draws alike; all cases with inputs if no seed changes any.

    Plain values may be fixed in some cases, such as an index or a size, but not in all.
    """
    firsts = {case: draw_inputs(code, folder, OTHER_SEEDS[0] + case, case) for case in range(cases)}
    fixed = [
        case
        for case, first in firsts.items()
        if first and all(_same(first, draw_inputs(code, folder, seed + case, case)) for seed in OTHER_SEEDS[1:])
    ]
    varied = any(first and case not in fixed for case, first in firsts.items())
    return [case for case in fixed if not varied or any(one.numel() for one in leaves(firsts[case]).values())]


def _same(first: Any, second: Any) -> bool:
    """Return True if two drawn values are equal, NaN with NaN."""
    if type(first) is not type(second):
        return False
    match first:
        case torch.Tensor():
            alike = (first.dtype, first.shape) == (second.dtype, second.shape)
            return alike and torch.equal(first.nan_to_num(), second.nan_to_num())
        case dict():
            return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
        case list() | tuple():
            return len(first) == len(second) and all(map(_same, first, second))
    return bool(first == second) or (first != first and second != second)


def main() -> None:
    """Until the end of input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an exercise's code prints must not get between the answers
    for line in sys.stdin:
        print(json.dumps(examined(Path(json.loads(line)["folder"]))), file=answers, flush=True)


if __name__ == "__main__":
    main()

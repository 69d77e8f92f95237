"""Are an exercise's checks sound? A program for authors: `python -m gpututor.judge.soundness`.

Reads a line of JSON for each exercise: `{"folder": …}`. Answers with a line of JSON:

- `checks`: for each its name, whether it looks at results only (`of_values`) and is `tolerant`, and its `baselines`;
- `weak`: a sentence for each nonsense that a check of values would accept, or nearly;
- `untried`: the checks of values on which no nonsense could be tried;
- `unsteady`: the cases for which `draw` gives other inputs each time, though the seed is the same;
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
from gpututor.checks.tolerances import tolerances
from gpututor.course.catalogue import load_exercise
from gpututor.errors import CourseError
from gpututor.judge.exercise_code import ExerciseCode, draw_inputs, load_code

SEEDS = (1, 2, 2**32 - 1)


def examined(folder: Path) -> dict[str, Any]:
    """What there is to say about the exercise in `folder`; see above."""
    answer: dict[str, Any] = {"checks": [], "weak": [], "untried": [], "unsteady": [], "error": None}
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
        tried = [one for seed in SEEDS for one in tolerances(code.checks, _cases(code, folder, seed, exercise.cases))]
        answer["weak"] = list(dict.fromkeys(one.sentence for one in tried if one.weak))
        tolerant = [check.name for check in code.checks if check.tolerance is not None]
        told_apart = {one.check for one in tried if not one.excused}
        answer["untried"] = [name for name in tolerant if name not in told_apart]
    except CourseError as error:
        answer["error"] = {"title": error.title, "advice": error.advice}
    return answer


def _cases(code: ExerciseCode, folder: Path, seed: int, cases: int) -> list[dict[str, Any]]:
    """The inputs of one grading."""
    return [draw_inputs(code, folder, seed + case, case) for case in range(cases)]


def _is_steady(code: ExerciseCode, folder: Path, case: int) -> bool:
    """Whether every tensor drawn twice is the same; other values cannot travel if they were not plain."""
    first, second = (leaves(draw_inputs(code, folder, SEEDS[0] + case, case)) for _ in range(2))
    return first.keys() == second.keys() and all(
        one.dtype == second[path].dtype and torch.equal(one.nan_to_num(), second[path].nan_to_num())
        for path, one in first.items()
    )


def main() -> None:
    """Until the end of input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an exercise's code prints must not get between the answers
    for line in sys.stdin:
        print(json.dumps(examined(Path(json.loads(line)["folder"]))), file=answers, flush=True)


if __name__ == "__main__":
    main()

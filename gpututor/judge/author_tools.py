"""Tools for authors: entry point of the tolerance audit and of lesson examples.

`python -m gpututor.judge.author_tools audit` reads a line of JSON for each exercise, `{"folder": …}`. It answers with a
line of JSON:

- `checks`: the name of each check, `of_values` (it reads results only), `tolerant`, and its `baselines`;
- `weak`: a sentence for each wrong result that a check of values accepts, or almost accepts;
- `untried`: the checks of values for which no wrong result could be tried;
- `unsteady`: the cases for which `draw` gives other inputs each time, though the seed is the same;
- `fixed`: the cases for which `draw` gives the same inputs for different seeds;
- `unused`: the names of `allowed_names` that neither the solution nor a right variant uses;
- `error`: null, or `title` and `advice` about a fault of the exercise.

`python -m gpututor.judge.author_tools examples GPUS FILE` runs the Python examples of a lesson on the virtual GPU, in
order, in one namespace. It prints a list as JSON, and stops at the first error. Each example has:

- `line` and `printed`: its line in the lesson, and its output;
- `expected`: the ```text block that follows it; null without a block;
- `error`: the error that it raised, as `line` and `words`; null without an error.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from gpututor.checks.parity import leaves
from gpututor.checks.tolerance_audit import tolerances, weakest
from gpututor.course.loader import load_exercise
from gpututor.errors import CourseError
from gpututor.judge.author_code import ExerciseCode, draw_inputs, load_code
from gpututor.judge.source_review import names_of

SEEDS = (1, 2, 2**32 - 1)
OTHER_SEEDS = (*SEEDS, 3, 5, 8)
"""Seeds whose inputs are compared: a single label of two classes is equal for two of them by chance."""


def audit_exercise(folder: Path) -> dict[str, Any]:
    """Return the report about the exercise in `folder`, with the keys that the module's docstring lists."""
    lists: tuple[str, ...] = ("checks", "weak", "untried", "unsteady", "fixed", "unused")
    report: dict[str, Any] = {**{name: [] for name in lists}, "error": None}
    try:
        exercise = load_exercise(folder)
        code = load_code(exercise)
        report["checks"] = [
            {
                "name": check.name,
                "of_values": check.results_only,
                "tolerant": check.tolerance is not None,
                "baselines": sorted({*check.baselines, *([check.speed.baseline] if check.speed else [])}),
            }
            for check in code.checks
        ]
        cases = range(exercise.cases)
        twice = [[draw_inputs(code, folder, SEEDS[0] + case, case) for _ in range(2)] for case in cases]
        report["unsteady"] = [case for case, (first, second) in enumerate(twice) if not _are_equal(first, second)]
        report["fixed"] = _fixed_cases(code, folder, exercise.cases)
        # Names that the manifest allows, but that no right file needs.
        right = [exercise.solution, *(exercise.file(f"right/{path.name}") for path in exercise.right_solutions)]
        used = frozenset[str]().union(*map(names_of, right))
        report["unused"] = [name for name in exercise.allowed_names if name not in used]
        drawn = [[draw_inputs(code, folder, seed + case, case) for case in cases] for seed in SEEDS]
        tried = [attempt for cases in drawn for attempt in tolerances(code.checks, cases)]
        report["weak"] = [attempt.sentence for attempt in weakest(attempt for attempt in tried if attempt.weak)]
        tolerant = [check.name for check in code.checks if check.tolerance is not None]
        rejected = {attempt.check for attempt in tried if not attempt.excused}
        compared = {attempt.check for attempt in tried}
        report["untried"] = [name for name in tolerant if name in compared - rejected]
    except CourseError as error:
        report["error"] = {"title": error.title, "advice": error.advice}
    return report


def _fixed_cases(code: ExerciseCode, folder: Path, cases: int) -> list[int]:
    """Return the cases with tensors that every seed draws alike; all cases with inputs if no seed changes any.

    Plain values, such as an index or a size, may be fixed in some cases but not in all.
    """
    firsts = {case: draw_inputs(code, folder, OTHER_SEEDS[0] + case, case) for case in range(cases)}
    fixed = [
        case
        for case, first in firsts.items()
        if first and all(_are_equal(first, draw_inputs(code, folder, seed + case, case)) for seed in OTHER_SEEDS[1:])
    ]
    varied = any(first and case not in fixed for case, first in firsts.items())
    return [case for case in fixed if not varied or any(tensor.numel() for tensor in leaves(firsts[case]).values())]


def _are_equal(first: Any, second: Any) -> bool:
    """Return True if two drawn values are equal; NaN equals NaN."""
    if type(first) is not type(second):
        return False
    match first:
        case torch.Tensor():
            alike = (first.dtype, first.shape) == (second.dtype, second.shape)
            return alike and torch.equal(first.nan_to_num(), second.nan_to_num())
        case dict():
            return first.keys() == second.keys() and all(_are_equal(first[key], second[key]) for key in first)
        case list() | tuple():
            return len(first) == len(second) and all(map(_are_equal, first, second))
    return bool(first == second) or (first != first and second != second)


EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<printed>.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def run_examples(file: Path, gpus: int) -> list[dict[str, Any]]:
    """Run the lesson's examples on `gpus` virtual GPUs until one raises. Lines are those of the lesson."""
    from gpututor.devices.virtual import virtual_gpu

    text = file.read_text(encoding="utf-8")
    name = f"<{file.name}>"
    namespace: dict[str, Any] = {"__name__": "lesson"}
    results = []
    with virtual_gpu(gpus):
        for example in EXAMPLE.finditer(text):
            line = text.count("\n", 0, example.start("code"))
            printed = io.StringIO()
            error: dict[str, Any] | None = None
            try:
                source = "\n" * line + example["code"]
                # Compilers read the file of a function, which must not be the text of a lesson.
                linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
                code = compile(source, name, "exec")
                with contextlib.redirect_stdout(printed):
                    exec(code, namespace)
            except Exception as raised:
                # Further lines of a CUDA error are about debugging tools.
                words = f"{type(raised).__name__}: {raised}".splitlines()[0]
                error = {"line": _line_of(raised, name) or line + 1, "words": words}
            result = {"line": line + 1, "printed": printed.getvalue(), "expected": example["printed"], "error": error}
            results.append(result)
            if error is not None:
                break
    return results


def _line_of(error: Exception, file: str) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def main() -> None:
    if sys.argv[1] == "examples":
        print(json.dumps(run_examples(Path(sys.argv[3]), int(sys.argv[2]))))
        return
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of an exercise's code must not get between the answers
    for line in sys.stdin:
        print(json.dumps(audit_exercise(Path(json.loads(line)["folder"]))), file=answers, flush=True)


if __name__ == "__main__":
    main()

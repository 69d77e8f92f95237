"""Agreement of the virtual GPU's prices with measured programs: by GPU and by class, fitted and cross-validated.

    python benchmarks/calibration.py [--programs]

Prints modelled over measured time. `--programs` lists the programs outside ±25 %. For cross-validation, the factors are
fitted without the programs, or without the GPU, that are then compared. A program's large and small forms are left out
together. Of a GPU that is left out, the model knows only the spec sheet and the launch overhead of its usual host.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from statistics import median

from fit import fit
from programs import MODELS, Measured, measured, ratios, within, within_quarter

from gpututor.devices.virtual.cost.calibration import fitted
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of

FOLDS = 10


def _class(program: Measured) -> str:
    """Return the kind of the operator that moves or computes most."""
    launched = [op for op in program.operators if kind_of(op.name) != NO_COST]
    heavy = max(launched, key=lambda op: (op.flops, sum(math.prod(t[0]) for t in (*op.inputs, *op.outputs))))
    return kind_of(heavy.name)


def _left_out(programs: Sequence[Measured], group: Callable[[Measured], object]) -> list[float]:
    """Return the ratio of each program with factors that were fitted without its group."""
    left_out = [0.0] * len(programs)
    for key in sorted({group(program) for program in programs}, key=str):
        factors = fit([program for program in programs if group(program) != key])
        places = [place for place, program in enumerate(programs) if group(program) == key]
        for place, ratio in zip(places, ratios([programs[place] for place in places], factors), strict=True):
            left_out[place] = ratio
    return left_out


def _line(title: str, values: Sequence[float]) -> str:
    errors = median(abs(math.log(ratio)) for ratio in values)
    return (
        f"{title:34} {len(values):4}   within ±25 %: {within_quarter(values):3}   within 2×: {within(values, 2):3}"
        f"   median ratio {median(values):.2f}   median error {math.expm1(errors):4.0%}"
    )


def _table(title: str, programs: Sequence[Measured], values: Sequence[float]) -> None:
    print(f"\n{title}")
    for size in ("large", "small"):
        for model in MODELS.values():
            pairs = zip(programs, values, strict=True)
            part = [ratio for program, ratio in pairs if (program.size, program.model) == (size, model)]
            if part:
                print(_line(f"  {size} on {model}", part))
    small = [ratio for program, ratio in zip(programs, values, strict=True) if program.size == "small"]
    print(_line("  small, all", small))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", action="store_true")
    listed = parser.parse_args().programs
    programs = measured()
    all_ratios = ratios(programs, fitted())
    _table("Fitted factors (calibration.toml)", programs, all_ratios)
    print("\nBy class of the heaviest operator")
    for size in ("large", "small"):
        for kind in sorted({_class(program) for program in programs}):
            pairs = zip(programs, all_ratios, strict=True)
            part = [ratio for program, ratio in pairs if (program.size, _class(program)) == (size, kind)]
            if part:
                print(_line(f"  {size} {kind}", part))
    folds = _left_out(programs, lambda program: int(program.program.split("_")[0]) % FOLDS)
    _table(f"Programs left out, a {FOLDS}th at a time", programs, folds)
    _table("A GPU left out", programs, _left_out(programs, lambda program: program.model))
    if listed:
        for program, ratio in zip(programs, all_ratios, strict=True):
            if not 0.75 <= ratio <= 1.25:
                milliseconds = program.seconds * 1e3
                print(f"{program.size} {program.model:10} {milliseconds:9.3f} ms  {ratio:5.2f}  {program.program}")


if __name__ == "__main__":
    main()

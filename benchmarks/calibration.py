"""How well the virtual GPU's prices agree with measured programs: by GPU and by class, fitted and cross-validated.

    python benchmarks/calibration.py [--programs]

Prints modelled over measured time. `--programs` lists those outside ±25 %. Cross-validated figures come from factors
fitted without the programs, or without the GPU, that they judge; a program's large and small forms leave together.
Only figures of spec sheets, and the launch overhead of the GPU's usual host, are known of a GPU that is left out.
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


def _class(one: Measured) -> str:
    """The kind of the operator that moves or computes most."""
    launched = [op for op in one.operators if kind_of(op.name) != NO_COST]
    heavy = max(launched, key=lambda op: (op.flops, sum(math.prod(t[0]) for t in (*op.inputs, *op.outputs))))
    return kind_of(heavy.name)


def _left_out(programs: Sequence[Measured], group: Callable[[Measured], object]) -> list[float]:
    """Ratios of each program with factors that were fitted without its group."""
    found = [0.0] * len(programs)
    for key in sorted({group(one) for one in programs}, key=str):
        factors = fit([one for one in programs if group(one) != key])
        places = [place for place, one in enumerate(programs) if group(one) == key]
        for place, ratio in zip(places, ratios([programs[place] for place in places], factors), strict=True):
            found[place] = ratio
    return found


def _line(title: str, found: Sequence[float]) -> str:
    errors = median(abs(math.log(one)) for one in found)
    return (
        f"{title:34} {len(found):4}   within ±25 %: {within_quarter(found):3}   within 2×: {within(found, 2):3}"
        f"   median ratio {median(found):.2f}   median error {math.expm1(errors):4.0%}"
    )


def _table(title: str, programs: Sequence[Measured], found: Sequence[float]) -> None:
    print(f"\n{title}")
    for size in ("large", "small"):
        for model in MODELS.values():
            part = [ratio for one, ratio in zip(programs, found, strict=True) if (one.size, one.model) == (size, model)]
            if part:
                print(_line(f"  {size} on {model}", part))
    small = [ratio for one, ratio in zip(programs, found, strict=True) if one.size == "small"]
    print(_line("  small, all", small))


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", action="store_true")
    listed = parser.parse_args().programs
    programs = measured()
    found = ratios(programs, fitted())
    _table("Fitted factors (calibration.toml)", programs, found)
    print("\nBy class of the heaviest operator")
    for size in ("large", "small"):
        for kind in sorted({_class(one) for one in programs}):
            part = [r for one, r in zip(programs, found, strict=True) if (one.size, _class(one)) == (size, kind)]
            if part:
                print(_line(f"  {size} {kind}", part))
    _table(f"Programs left out, a {FOLDS}th at a time", programs, _left_out(programs, _fold))
    _table("A GPU left out", programs, _left_out(programs, lambda one: one.model))
    if listed:
        for one, ratio in zip(programs, found, strict=True):
            if not 0.75 <= ratio <= 1.25:
                print(f"{one.size} {one.model:10} {one.seconds * 1e3:9.3f} ms  {ratio:5.2f}  {one.program}")


def _fold(one: Measured) -> int:
    return int(one.program.split("_")[0]) % FOLDS


if __name__ == "__main__":
    main()

"""Fit of the factors in calibration.toml to the measured programs; the result is deterministic.

    python benchmarks/fit.py [--write]

Prints each factor before and after; `--write` puts the new factors into the file. Factors marked (kept) stay.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from programs import MODELS, Measured, measured, modelled_s

from gpututor.devices.virtual.cost import calibration as rates
from gpututor.devices.virtual.cost.calibration import attainable, fitted
from gpututor.hardware.gpus import gpu_spec

FILE = Path(rates.__file__).parent / "calibration.toml"
_START = {
    "memory.hbm": 0.9, "memory.gddr_ecc": 0.8, "memory.mixed_types": 1.0, "memory.rearranged": 1.0,
    "matmul.float32_64_lanes": 0.85, "matmul.float32_128_lanes": 0.8, "matmul.tile_64": 0.8, "matmul.epilogue": 1.0,
    "convolution.read_passes": 2.0, "convolution.write_passes": 2.0, "convolution.transposed_passes": 2.0,
    "convolution.pointwise_passes": 1.0, "convolution.tensor": 0.5, "convolution.tile": 0.5, "convolution.visits": 0.5,
    "convolution.plain": 0.9, "convolution.few_channels": 0.5, "convolution.grouped": 0.3,
    "convolution.depthwise_base": 50.0, "convolution.depthwise_tap": 4.0,
    "norm.batch_block_gb_s": 6.0, "norm.group_block_gb_s": 6.0, "norm.layer_block_gb_s": 6.0,
    "pool.tap_cycles": 0.5, "scan.slowdown": 1.5, "scan.block_gb_s": 2.0, "loss.nll_step_us": 0.5,
    "host.view": 0.5, "host.convolution": 3.0, "host.reduction": 1.0,
    "power.watts_7_5": 0.025, "power.watts_9_0": 0.014, "convolution.window": 0.1,
}  # fmt: skip
"""Initial guesses of every fit. Not calibration.toml, which is fitted to the data that cross-validation leaves out."""
_STEPS = (1.4, 1.12, 1.04)
_ROUNDS = 3
_LARGE_WEIGHT = 3.0
"""Weight of large programs: small programs mostly measure the host."""
_AT_MOST = {
    "matmul.float32_64_lanes": 0.95, "matmul.float32_128_lanes": 0.95, "matmul.tile_64": 1.0, "memory.hbm": 0.95,
    "memory.gddr_ecc": 0.95, "convolution.tensor": 0.9, "convolution.plain": 0.95, "convolution.visits": 1.0,
    "convolution.few_channels": 0.95, "convolution.grouped": 0.95,
}  # fmt: skip
_AT_LEAST = {"memory.rearranged": 1.0, "memory.mixed_types": 1.0, "matmul.epilogue": 1.0, "scan.slowdown": 1.0,
             "convolution.read_passes": 1.0, "convolution.write_passes": 1.0, "convolution.transposed_passes": 1.0,
             "convolution.pointwise_passes": 1.0}  # fmt: skip


def free_factors() -> list[str]:
    """Return the names of the factors to fit: those not marked (kept)."""
    section, names, last = "", [], ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\[(\w+)\]", line):
            section = match[1]
        elif match := re.match(r"(\w+) = ", line):
            last = f"{section}.{match[1]}"
            if section != "power":
                names.append(last)
        elif line.startswith("#") and "(kept)" in line and last in names:
            names.remove(last)
    return [*names, "power.watts_7_5", "power.watts_9_0"]


def _losses(programs: Sequence[Measured], factors: Mapping[str, float]) -> np.ndarray:
    """Return each program's loss: steep from 10 % to 40 % of error, almost flat beyond, so outliers matter little."""
    gpus = {model: attainable(gpu_spec(model), factors) for model in MODELS.values()}
    errors = np.array([np.log(modelled_s(program, gpus[program.model]) / program.seconds) for program in programs])
    weights = np.array([_LARGE_WEIGHT if program.size == "large" else 1.0 for program in programs])
    square = errors**2
    return np.asarray(weights * (square / (square + 0.22**2) + 0.25 * np.minimum(np.abs(errors), 1.5)))


def _touched(name: str, programs: Sequence[Measured]) -> list[int]:
    """Return the indices of the programs whose time a factor can change."""
    section = name.split(".")[0]
    if section in ("memory", "power", "host"):
        return list(range(len(programs)))
    wanted = {"matmul": ("matmul", "convolution"), "loss": ("nll",)}.get(section, (section,))
    return [
        place
        for place, program in enumerate(programs)
        if any(word in kind for kind in program.kinds for word in wanted)
    ]


def fit(programs: Sequence[Measured]) -> dict[str, float]:
    """Fit factors to the programs: change one factor at a time, in ever smaller steps."""
    factors = {**fitted(), **_START}
    losses = _losses(programs, factors)
    names = [(name, _touched(name, programs)) for name in free_factors()]
    for step in _STEPS * 2:
        for _ in range(_ROUNDS):
            before = losses.sum()
            for name, places in names:
                few = [programs[place] for place in places]
                for ratio in (step, 1 / step):
                    trial = factors[name] * ratio
                    while places and _AT_LEAST.get(name, 0.0) <= trial <= _AT_MOST.get(name, 1e9):
                        losses_of_trial = _losses(few, {**factors, name: trial})
                        if losses_of_trial.sum() >= losses[places].sum() - 1e-9:
                            break
                        factors[name] = trial
                        losses[places] = losses_of_trial
                        trial *= ratio
            if before - losses.sum() < 0.05:
                break
    return factors


def _write(factors: Mapping[str, float]) -> None:
    section, lines = "", []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\[(\w+)\]", line):
            section = match[1]
        elif (match := re.match(r"(\w+) = ", line)) and f"{section}.{match[1]}" in set(free_factors()):
            line = f"{match[1]} = {factors[f'{section}.{match[1]}']:.4g}"
        lines.append(line)
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Fit, print, and write on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    old, new = fitted(), fit(measured())
    for name in free_factors():
        print(f"{name:32} {old[name]:10.4g} → {new[name]:10.4g}")
    if write:
        _write(new)


if __name__ == "__main__":
    main()

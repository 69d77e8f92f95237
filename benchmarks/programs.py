"""Measured programs, and the time that the virtual GPU's prices give them; for calibration.py, fit.py and tests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpututor.devices.virtual.cost.calibration import AchievableRates, attainable
from gpututor.devices.virtual.cost.kernel import Layout, launches, price
from gpututor.devices.virtual.cost.memory_traffic import Tensor
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of
from gpututor.hardware.gpus import gpu_spec

DATA = Path(__file__).parent / "data" / "measured_gpu_times.json"
MODELS = {"H100 PCIe": "H100 PCIe", "T4": "T4", "A100 SXM 40GB": "A100 40", "H100 SXM": "H100"}
"""Names in gpus.toml by the data file's names of GPUs."""
_AROUND = 1.0
"""Cost of the measurement itself for the host, in launches."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of a program, as `price` takes it."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    flops: float
    layout: Layout = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """A program on a GPU."""

    program: str
    size: str
    """`large` or `small`."""
    model: str
    """The GPU's name in gpus.toml."""
    seconds: float
    operators: tuple[Operator, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the operators that launch kernels."""
        return frozenset(kind_of(operator.name) for operator in self.operators) - {NO_COST}


def read_operator(row: dict[str, Any]) -> Operator:
    """Return an operator of the data files."""
    inputs, outputs = (tuple((tuple(shape), dtype) for shape, dtype in row[key]) for key in ("in", "out"))
    return Operator(row["op"], inputs, outputs, row["flops"], row.get("layout", ""))


def measured() -> list[Measured]:
    """Return every measurement of the data file."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    programs = []
    for size in ("large", "small"):
        for program, entry in data[size].items():
            operators = tuple(read_operator(row) for row in entry["ops"])
            for gpu, milliseconds in entry["ms"].items():
                programs.append(Measured(program, size, MODELS[gpu], milliseconds / 1e3, operators))
    return programs


def modelled_s(program: Measured, gpu: AchievableRates) -> float:
    """Return the modelled seconds between two events: the host launches, and the device runs the kernels."""
    launch_s = gpu.spec.launch_s
    host = device = _AROUND * launch_s
    for operator in program.operators:
        host += launch_s * launches(operator.name, gpu.factors)
        parts = (operator.name, operator.inputs, operator.outputs, operator.flops)
        seconds = price(gpu.spec, *parts, gpu=gpu, layout=operator.layout).seconds
        if seconds:
            device = max(host, device) + seconds
    return max(host, device) + _AROUND * launch_s


def ratios(programs: Iterable[Measured], factors: Mapping[str, float]) -> list[float]:
    """Return modelled over measured time of each program."""
    gpus = {model: attainable(gpu_spec(model), factors) for model in MODELS.values()}
    return [modelled_s(program, gpus[program.model]) / program.seconds for program in programs]


def within(ratios: Iterable[float], factor: float) -> int:
    """Return the number of ratios between 1 / `factor` and `factor`."""
    return sum(1 for ratio in ratios if abs(math.log(ratio)) <= math.log(factor))


def within_quarter(ratios: Iterable[float]) -> int:
    """Return the number of ratios within ±25 %."""
    return sum(1 for ratio in ratios if 0.75 <= ratio <= 1.25)

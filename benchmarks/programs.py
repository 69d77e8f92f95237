"""Measured programs, and the time that the virtual GPU's prices give them; for calibration.py, fit.py and tests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpututor.devices.virtual.cost.calibration import AchievableRates, attainable
from gpututor.devices.virtual.cost.kernel import launches, price
from gpututor.devices.virtual.cost.memory_traffic import Tensor
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of
from gpututor.hardware.gpus import gpu_spec

DATA = Path(__file__).parent / "data" / "measured_gpu_times.json"
MODELS = {"H100 PCIe": "H100 PCIe", "T4": "T4", "A100 SXM 40GB": "A100 40", "H100 SXM": "H100"}
"""The file's names of GPUs, and gpus.toml's."""
_AROUND = 1.0
"""Launches that measuring itself costs the host, before and after the program."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a program, as `price` takes it."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    flops: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One program on one GPU."""

    program: str
    size: str
    """`large` or `small`."""
    model: str
    """The GPU's name in gpus.toml."""
    seconds: float
    operators: tuple[Operator, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of its operators that launch something."""
        return frozenset(kind_of(one.name) for one in self.operators) - {NO_COST}


def tensors(listed: Iterable[tuple[list[int], str]]) -> tuple[Tensor, ...]:
    """Shapes and types as the data files have them."""
    return tuple((tuple(shape), dtype) for shape, dtype in listed)


def measured() -> list[Measured]:
    """Every measurement of the data file."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    found = []
    for size in ("large", "small"):
        for program, entry in data[size].items():
            operators = tuple(
                Operator(one["op"], tensors(one["in"]), tensors(one["out"]), one["flops"]) for one in entry["ops"]
            )
            for gpu, milliseconds in entry["ms"].items():
                found.append(Measured(program, size, MODELS[gpu], milliseconds / 1e3, operators))
    return found


def modelled_s(one: Measured, gpu: AchievableRates) -> float:
    """Seconds that the model gives the program: the host launches, the device follows, both measured by events."""
    launch_s = gpu.spec.launch_s
    host = device = _AROUND * launch_s
    for operator in one.operators:
        host += launch_s * launches(operator.name, gpu.factors)
        seconds = price(gpu.spec, operator.name, operator.inputs, operator.outputs, operator.flops, gpu=gpu).seconds
        if seconds:
            device = max(host, device) + seconds
    return max(host, device) + _AROUND * launch_s


def ratios(programs: Iterable[Measured], factors: Mapping[str, float]) -> list[float]:
    """Modelled over measured time of each."""
    gpus = {model: attainable(gpu_spec(model), factors) for model in MODELS.values()}
    return [modelled_s(one, gpus[one.model]) / one.seconds for one in programs]


def within(found: Iterable[float], factor: float) -> int:
    """How many ratios lie within the factor, either way."""
    return sum(1 for one in found if abs(math.log(one)) <= math.log(factor))


def within_quarter(found: Iterable[float]) -> int:
    """How many ratios lie within ±25 %."""
    return sum(1 for one in found if 0.75 <= one <= 1.25)

"""PyTorch's own operator samples on a GPU, real or virtual: kernels, waits, copies, memory and results of each."""

from __future__ import annotations

import gc
import json
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from gpututor.devices.real import observe
from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Kind
from tests.support import ROOT
from tests.support.operator_samples import name_of

DATA = ROOT / "tests/devices/virtual/data/operators_h200.json"
"""Facts of each operator, measured by `tools/operators_on_gpu.py`."""
_SAMPLES = (4, 1, 0)
"""The sample that is tried, or the next one if there are fewer: the first ones are often numbers."""


@dataclass(frozen=True)
class Facts:
    """The effects of one call on a GPU."""

    kernels: str
    """The operators that ran on the GPU, in order."""
    waits: int
    copies: int
    """Copies from the GPU to the host."""
    allocated: int
    """Bytes of the results, and of what autograd keeps."""
    peak: int
    results: str
    """Dtypes, shapes and strides, or the class of an error."""

    def as_text(self) -> str:
        return f"{self.kernels} | {self.waits} {self.copies} {self.allocated} {self.peak} | {self.results}"

    @staticmethod
    def of_text(text: str) -> Facts:
        kernels, numbers, results = text.split(" | ")
        waits, copies, allocated, peak = map(int, numbers.split())
        return Facts(kernels, waits, copies, allocated, peak, results)


def described(value: Any) -> str:
    """Return the dtypes, shapes and strides of the tensors in a result."""
    if isinstance(value, torch.Tensor):
        dtype, shape = str(value.dtype)[6:], ",".join(map(str, value.shape))
        if value.layout is not torch.strided:
            return f"{dtype}[{shape}]{value.layout}"
        return f"{dtype}[{shape}]{{{','.join(map(str, value.stride()))}}}"
    if isinstance(value, tuple | list):
        return " ".join(map(described, value))
    return type(value).__name__


def _settled_memory() -> int:
    """Wait until autograd's threads hold none of the last backward pass's tensors; return the allocated bytes."""
    allocated = torch.cuda.memory_allocated()
    while True:
        time.sleep(0.02)
        before, allocated = allocated, torch.cuda.memory_allocated()
        if allocated == before:
            return allocated


def _watched(call: Callable[[], Any], recorder: Recorder | None) -> tuple[Any, Facts]:
    """Return a call's result and its facts; `recorder` is the virtual GPU's."""
    gc.collect(0)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated() if recorder is not None else _settled_memory()
    torch.cuda.reset_peak_memory_stats()
    seen = Recorder([__file__]) if recorder is None else recorder
    first = len(seen.trace)
    result, error = None, ""
    with observe(seen, times=False, memory=False) if recorder is None else nullcontext():
        try:
            result = call()
        except Exception as refusal:  # an operator's refusal is one of its facts
            error = type(refusal).__name__
        allocated = torch.cuda.memory_allocated() - before
        peak = torch.cuda.max_memory_allocated() - before
    events = [event for event in seen.complete().since(first) if event.line is not None]
    kernels = [event for event in events if event.kind is Kind.KERNEL and event.device != "cpu"]
    facts = Facts(
        " ".join(event.name.removeprefix("aten::") for event in kernels),
        sum(event.kind is Kind.SYNCHRONISE for event in events),
        sum(bool(event.to_host) for event in events),
        allocated,
        peak,
        error or described(result),
    )
    return result, facts


def _tensors(value: Any) -> list[torch.Tensor]:
    parts = value if isinstance(value, tuple | list) else [value]
    return [part for part in parts if isinstance(part, torch.Tensor) and part.requires_grad]


def _facts(op: Any, recorder: Recorder | None) -> list[Facts]:
    """Return the facts of a sample's forward pass, and of its backward pass if it has one."""
    dtype = next((kind for kind in (torch.float32, torch.int64) if kind in op.dtypes), None)
    dtype = dtype or min(op.dtypes, key=str)
    differentiable = op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(0)
    samples = list(islice(op.sample_inputs("cuda", dtype, requires_grad=differentiable), max(_SAMPLES) + 1))
    sample = samples[next(place for place in _SAMPLES if place < len(samples))]

    def call() -> Any:
        torch.manual_seed(1)
        return op(sample.input, *sample.args, **sample.kwargs)

    with suppress(Exception):  # the next call raises it again
        call()  # libraries take their workspaces
    result, forward = _watched(call, recorder)
    if not differentiable or result is None:
        return [forward]
    outputs = _tensors(sample.output_process_fn_grad(result) if sample.output_process_fn_grad else result)
    inputs = [*_tensors(sample.input), *_tensors(sample.args)]
    if not outputs or not inputs:
        return [forward]
    ones = [torch.ones_like(output) for output in outputs]

    def backward() -> Any:
        return torch.autograd.grad(outputs, inputs, ones, retain_graph=True, allow_unused=True)

    with suppress(Exception):
        backward()
    return [forward, _watched(backward, recorder)[1]]


def measure(recorder: Recorder | None, only: Collection[str] | None = None) -> dict[str, list[Facts]]:
    """Return the facts of each operator, or of those in `only`, on the current GPU.

    `recorder` is the virtual GPU's; None on a real one. Operators whose samples cannot be made are left out.
    """
    measured: dict[str, list[Facts]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

        for op in op_db:
            if not op.dtypes or (only is not None and name_of(op) not in only):
                continue
            try:
                measured[name_of(op)] = _facts(op, recorder)
            except Exception:
                continue  # the caller sees that it is missing
    return measured


def measure_virtual(only: Collection[str] | None = None) -> dict[str, list[Facts]]:
    """Return the facts of each operator on a virtual H100, whose kernels are an H200's."""
    recorder = Recorder([__file__])
    with virtual_gpu(1, "H100", obey_environment=False, recorder=recorder):
        return measure(recorder, only)


def stored(path: Path = DATA) -> dict[str, list[Facts]]:
    """Return the measured facts of each operator."""
    rows = json.loads(path.read_text(encoding="utf-8"))["operators"]
    return {name: [Facts.of_text(text) for text in texts] for name, texts in rows.items()}


def store(measured: dict[str, list[Facts]], source: str, path: Path = DATA) -> None:
    rows = {name: [facts.as_text() for facts in row] for name, row in sorted(measured.items())}
    text = json.dumps({"source": source, "operators": rows}, indent=0, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def apart(name: str, real: list[Facts], virtual: list[Facts], excused: Mapping[str, Collection[str]]) -> list[str]:
    """Return the differences between both GPUs, except those in `excused`, by the fact that differs."""
    lines = []
    if len(real) != len(virtual) and name not in excused.get("passes", ()):
        lines.append(f"{name}: {len(real)} passes on the real GPU, {len(virtual)} on the virtual one")
    for way, left, right in zip(("forward", "backward"), real, virtual, strict=False):
        for fact in Facts.__dataclass_fields__:
            if name in excused.get(fact, ()):
                continue
            wanted, got = getattr(left, fact), getattr(right, fact)
            if wanted != got:
                lines.append(f"{name} {way} {fact}: {wanted!r} on the real GPU, {got!r} on the virtual one")
    return lines

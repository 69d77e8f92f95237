"""Small pieces of work that show a GPU's achievable rates, timed in the same way on real and virtual GPUs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import nn

Call = Callable[[], object]
How = Literal["queued", "launched", "waited"]
"""`queued`: the device's seconds for a call, when many calls are queued, so launches do not count. `launched`: the
host's seconds for a call while the device is busy. `waited`: the host's seconds for a call and its wait."""
MIB = 2**20
COPY_SIZES = (4 * 2**10, 64 * 2**10, MIB, 16 * MIB, 128 * MIB)
MATRIX_SIZES = (256, 1024, 4096, 8192)
DTYPES = ("float32", "tf32", "float16", "bfloat16", "float64")
ADD_SIZES = (MIB, 8 * MIB, 32 * MIB, 128 * MIB, 1024 * MIB)


@dataclass(frozen=True)
class Case:
    """A piece of work."""

    what: str
    """Key of `WORK`."""
    how: How
    size: int = 0
    """Bytes moved by copies and elementwise kernels; rows of a matrix product's square matrices."""
    dtype: str = "float32"
    """`tf32` is float32 on tensor cores."""
    to_device: bool = True
    """Direction of copies."""
    pinned: bool = False

    @property
    def words(self) -> str:
        match self.what:
            case "copy":
                memory = "pinned" if self.pinned else "pageable"
                return f"copy {'to' if self.to_device else 'from'} the device, {memory}, {self.size / MIB:g} MiB"
            case "matmul":
                return f"matmul {self.size} {self.dtype}"
            case "add":
                return f"add, {self.size / MIB:g} MiB moved"
        return self.what if self.dtype == "float32" else f"{self.what} {self.dtype}"


class Timer(Protocol):
    """A timer of cases."""

    def seconds(self, case: Case) -> float: ...


def calibration_cases() -> list[Case]:
    """Return the cases that a spec's figures come from."""
    copies = [
        Case("copy", "queued" if pinned else "waited", size, to_device=to_device, pinned=pinned)
        for pinned in (True, False)
        for to_device in (True, False)
        for size in COPY_SIZES
    ]
    products = [Case("matmul", "queued", size, dtype) for dtype in DTYPES for size in MATRIX_SIZES]
    adds = [Case("add", "queued", size) for size in ADD_SIZES]
    return [Case("launch", "launched"), Case("smallest kernel", "queued"), *copies, *products, *adds]


def other_cases() -> list[Case]:
    """Return further kinds of kernels."""
    named = ("exp", "sum", "sum of rows", "softmax", "layer norm", "attention", "convolution")
    return [
        *(Case(what, "queued", dtype=dtype) for what in named for dtype in ("float32", "float16")),
        Case("Adam step", "queued"),
        Case("Adam step, host", "launched"),
    ]


def _dtype(case: Case) -> torch.dtype:
    dtype = getattr(torch, "float32" if case.dtype == "tf32" else case.dtype)
    assert isinstance(dtype, torch.dtype)
    return dtype


def _on(case: Case, *shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=_dtype(case), device="cuda")


def _copy(case: Case) -> Call:
    host = torch.ones(case.size, dtype=torch.uint8)
    if case.pinned:
        host = host.pin_memory()
    device = torch.ones(case.size, dtype=torch.uint8, device="cuda")
    target, source = (device, host) if case.to_device else (host, device)
    return lambda: target.copy_(source, non_blocking=case.pinned)


def _matmul(case: Case) -> Call:
    # Random numbers: products of equal numbers draw less power than real programs, so the clock would stay higher.
    left, right, out = (torch.randn_like(_on(case, case.size, case.size)) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


def _add(case: Case) -> Call:
    left, right, out = (_on(case, case.size // 12) for _ in range(3))
    return lambda: torch.add(left, right, out=out)


def _small(case: Case) -> Call:
    x = _on(case, 32)
    return lambda: x.add_(1)


def _attention(case: Case) -> Call:
    query, key, value = (_on(case, 8, 16, 1024, 64) for _ in range(3))
    return lambda: nn.functional.scaled_dot_product_attention(query, key, value)


def _convolution(case: Case) -> Call:
    image, weight = _on(case, 32, 64, 56, 56), _on(case, 64, 64, 3, 3)
    return lambda: nn.functional.conv2d(image, weight, padding=1)


def _layer_norm(case: Case) -> Call:
    x, weight = _on(case, 8192, 1024), _on(case, 1024)
    return lambda: nn.functional.layer_norm(x, (1024,), weight, weight)


def _adam(case: Case) -> Call:
    weights = [nn.Parameter(_on(case, 1024, 1024)) for _ in range(20)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    return torch.optim.Adam(weights, foreach=True).step


def _of_matrix(call: Callable[[torch.Tensor], object]) -> Callable[[Case], Call]:
    def make(case: Case) -> Call:
        x = _on(case, 8192, 4096)
        return lambda: call(x)

    return make


WORK: dict[str, Callable[[Case], Call]] = {
    "launch": _small,
    "smallest kernel": _small,
    "copy": _copy,
    "matmul": _matmul,
    "add": _add,
    "exp": _of_matrix(torch.exp),
    "sum": _of_matrix(torch.sum),
    "sum of rows": _of_matrix(lambda x: x.sum(1)),
    "softmax": _of_matrix(lambda x: torch.softmax(x, 1)),
    "layer norm": _layer_norm,
    "attention": _attention,
    "convolution": _convolution,
    "Adam step": _adam,
    "Adam step, host": _adam,
}
"""Functions that create the tensors and return the call to time, by name."""


@contextmanager
def _tf32(wanted: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = wanted
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class CudaTimer:
    """Timer on the current CUDA device; inside `virtual_gpu`, by the modelled clock."""

    def __init__(self, rounds: int = 5) -> None:
        self._rounds = rounds

    def seconds(self, case: Case) -> float:
        """Return the median of some rounds, after two calls that are not counted."""
        with _tf32(case.dtype == "tf32"), torch.no_grad():
            call = WORK[case.what](case)
            for _ in range(2):
                call()
            torch.cuda.synchronize()
            round_s: Callable[[Call], float] = getattr(self, f"_{case.how}_s")
            return statistics.median(round_s(call) for _ in range(self._rounds))

    def _queued_s(self, call: Call) -> float:
        once = self._waited_s(call)
        repeats = max(1, min(100, round(0.02 / once)))
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # The device sleeps while the host fills the queue; its clock is at most 2 GHz.
        torch.cuda._sleep(round(min(once, 1e-3) * repeats * 2e9) + 1_000_000)
        start.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / repeats

    def _launched_s(self, call: Call) -> float:
        torch.cuda._sleep(10_000_000)
        # Looked up in `time` at each call: inside `virtual_gpu`, this is the modelled clock.
        start = time.perf_counter()
        for _ in range(200):
            call()
        spent = time.perf_counter() - start
        torch.cuda.synchronize()
        return spent / 200

    def _waited_s(self, call: Call) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return time.perf_counter() - start


def measure(timer: Timer, cases: list[Case]) -> dict[Case, float]:
    """Return the seconds of each case; cases without memory or kernels on the device are left out."""
    seconds: dict[Case, float] = {}
    for case in cases:
        try:
            seconds[case] = timer.seconds(case)
        except (torch.OutOfMemoryError, NotImplementedError):
            continue
    return seconds


def modelled(model: str, cases: list[Case]) -> dict[Case, float]:
    """Return the same on the virtual GPU of that model. Only copies are run with values."""
    from gpututor.devices.virtual import virtual_gpu

    seconds: dict[Case, float] = {}
    for values in (True, False):
        with virtual_gpu(1, model, obey_environment=False, values=values):
            seconds |= measure(CudaTimer(rounds=1), [case for case in cases if (case.what == "copy") is values])
    return {case: seconds[case] for case in cases if case in seconds}

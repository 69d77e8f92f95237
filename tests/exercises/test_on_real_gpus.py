"""Exercises about time and precision on real GPUs, most of which finish a kernel before an observed host continues."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from gpututor.checks.model import Call, Check, Machine, Run, Span
from gpututor.hardware.scenario import Scenario
from gpututor.judge.author_code import load_code
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import GPU, failure, observed
from tests.support.shipped_course import COURSE

MICROSECOND = 1_000
HOSTS = (10 * MICROSECOND, 30 * MICROSECOND, 300 * MICROSECOND)
"""Time of a launch under observation: a fast host, an ordinary one, a busy one."""
KERNELS = (5 * MICROSECOND, 75 * MICROSECOND, 400 * MICROSECOND, 20_000 * MICROSECOND)
BY_DEVICE = "start.elapsed_time(end)"
"""Source of code that reads the device's events."""
REAL_GPU = Machine(Scenario("one GPU", 1, ("cuda",)), "cuda:0", False, "NVIDIA H200", 140 << 30)
BEFORE_NS = 4_000_000
"""Moment on the trace's clock at which the call begins: other calls came before."""


class SimulatedGpu:
    """A stream and its host, with the trace that an observer would write. All times are nanoseconds.

    `host_ns` is the host's time for a launch: half of it before the kernel is launched, half after it.
    """

    def __init__(self, host_ns: int) -> None:
        self.host_ns = host_ns
        self.now = BEFORE_NS
        self.free = 0
        self.trace = Trace()

    def launch(self, name: str, work_ns: int, **facts: Any) -> None:
        self._work(Kind.KERNEL, name, work_ns, facts)

    def copy(self, source: str, target: str, work_ns: int) -> None:
        """Copy; the host waits for a copy to it."""
        launched = self._work(Kind.TRANSFER, "aten::_to_copy", work_ns, {"source": source, "target": target})
        if target == "cpu":
            self._wait(launched, "aten::_to_copy")

    def synchronize(self) -> None:
        self._wait(self.now, "torch.cuda.synchronize")

    def clock_s(self) -> float:
        """Return the host's clock, as the learner reads it."""
        return self.now / 1e9

    def event_s(self) -> float:
        """Return the device's clock when it reaches an event that is recorded now."""
        return max(self.now, self.free) / 1e9

    def run_of(self, output: Any, drawn: dict[str, Any], source: str = "") -> Run:
        """Return the run of one call that returned `output` now."""
        span = Span(BEFORE_NS, self.now, max(self.now, self.free))
        return Run(REAL_GPU, (Call(drawn, {}, output, self.trace, span=span),), source, "work")

    def _work(self, kind: Kind, name: str, work_ns: int, facts: dict[str, Any]) -> int:
        self.now += self.host_ns // 2
        launched = self.now
        start = max(launched, self.free)
        self.free = start + work_ns
        self.trace.add(kind, name, "cuda:0", launched=launched, start=start, end=self.free, **facts)
        self.now += self.host_ns - self.host_ns // 2
        return launched

    def _wait(self, began: int, name: str) -> None:
        self.now = max(self.now, self.free) + 2_000
        self.trace.add(Kind.SYNCHRONISE, name, "cuda:0", launched=began, start=began, end=self.now)
        self.now += self.host_ns // 4  # the observer reads its events


@cache
def check_of(slug: str, name: str) -> Check:
    exercise = next(exercise for exercise in COURSE.exercises if exercise.slug == slug)
    return next(check for check in load_code(exercise).checks if check.name == name)


def passes(run: Run, slug: str, *names: str) -> bool:
    return all(check_of(slug, name).find(run) is None for name in names)


on_all_gpus = pytest.mark.parametrize(("host_ns", "work_ns"), [(host, work) for host in HOSTS for work in KERNELS])


def many_products(gpu: SimulatedGpu, work_ns: int, *, waits: bool = True, unit: float = 1.0, times: int = 5) -> Run:
    """Time products as 4.1 wants it."""
    gpu.launch("aten::mm", 20 * work_ns)
    gpu.synchronize()
    start_s = gpu.clock_s()
    for _ in range(times):
        gpu.launch("aten::mm", work_ns)
    launched_s = gpu.clock_s()
    if waits:
        gpu.synchronize()
    done_s = gpu.clock_s()
    result = {"launch_seconds": (launched_s - start_s) / times, "seconds": (done_s - start_s) / times * unit}
    return gpu.run_of(result, {"times": times})


@on_all_gpus
def test_only_right_times_of_many_products_pass(host_ns: int, work_ns: int) -> None:
    right = many_products(SimulatedGpu(host_ns), work_ns)
    early = many_products(SimulatedGpu(host_ns), work_ns, waits=False)
    milliseconds = many_products(SimulatedGpu(host_ns), work_ns, unit=1e3)
    assert passes(right, "wait_for_the_gpu", "measurement", "launch")
    assert not any(passes(run, "wait_for_the_gpu", "measurement") for run in (early, milliseconds))


def two_layers(gpu: SimulatedGpu, work_ns: int, clock: Callable[[], float], source: str) -> Run:
    """Time two products, the second of which takes half as long, as 4.2 wants it."""
    start_s = clock()
    gpu.launch("aten::mm", work_ns)
    between_s = clock()
    gpu.launch("aten::mm", work_ns // 2)
    end_s = clock()
    gpu.synchronize()
    return gpu.run_of({"first": between_s - start_s, "second": end_s - between_s}, {}, source)


@on_all_gpus
def test_timing_by_events_passes_and_by_a_clock_without_waits_fails(host_ns: int, work_ns: int) -> None:
    gpu, other = SimulatedGpu(host_ns), SimulatedGpu(host_ns)
    assert passes(two_layers(gpu, work_ns, gpu.event_s, BY_DEVICE), "events", "first", "second")
    assert not passes(two_layers(other, work_ns, other.clock_s, ""), "events", "first")


def one_product(gpu: SimulatedGpu, work_ns: int, *, waits: bool = True, copies: bool = False) -> Run:
    """Time one product between copies, as 4.3 wants it."""
    if not copies:
        gpu.copy("cpu", "cuda:0", 100 * MICROSECOND)
        gpu.launch("aten::mm", work_ns)
        gpu.synchronize()
    start_s = gpu.clock_s()
    if copies:
        gpu.copy("cpu", "cuda:0", 100 * MICROSECOND)
        gpu.copy("cpu", "cuda:0", 100 * MICROSECOND)
    gpu.launch("aten::mm", work_ns)
    if waits:
        gpu.synchronize()
    seconds = gpu.clock_s() - start_s
    gpu.copy("cuda:0", "cpu", 100 * MICROSECOND)
    return gpu.run_of({"gpu_seconds": seconds}, {})


@on_all_gpus
def test_timing_a_product_needs_a_wait_before_reading_the_clock(host_ns: int, work_ns: int) -> None:
    right, early = (one_product(SimulatedGpu(host_ns), work_ns, waits=waits) for waits in (True, False))
    assert passes(right, "cpu_versus_gpu", "gpu_time")
    assert not passes(early, "cpu_versus_gpu", "gpu_time"), "the copy to the host waits after the clock was read"


@pytest.mark.parametrize("host_ns", HOSTS)
def test_copies_that_are_timed_fail(host_ns: int) -> None:
    run = one_product(SimulatedGpu(host_ns), 75 * MICROSECOND, copies=True)
    assert not passes(run, "cpu_versus_gpu", "gpu_time")


def sizes(gpu: SimulatedGpu, work_ns: int, *, waits: bool = True) -> Run:
    """Time products of some sizes as 4.4 wants it."""
    times = []
    for size in (33, 97, 149):
        facts = {"flops": 2.0 * size**3, "dtype": "float32"}
        gpu.launch("aten::rand", work_ns)
        gpu.launch("aten::mm", work_ns * size // 33, **facts)
        gpu.synchronize()
        start_s = gpu.clock_s()
        gpu.launch("aten::mm", work_ns * size // 33, **facts)
        if waits:
            gpu.synchronize()
        times.append(gpu.clock_s() - start_s)
    return gpu.run_of({"gpu": times}, {"sizes": [33, 97, 149]})


@on_all_gpus
def test_times_of_all_sizes_need_a_wait(host_ns: int, work_ns: int) -> None:
    right, early = (sizes(SimulatedGpu(host_ns), work_ns, waits=waits) for waits in (True, False))
    assert passes(right, "when_small_is_slow", "gpu_times")
    assert "modelled" not in failure(check_of("when_small_is_slow", "gpu_times"), early).expected


def narrowed(tensor: torch.Tensor) -> torch.Tensor:
    """Return float32 with the 10 bits behind the point that TF32 keeps."""
    return (tensor.view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize(
    ("is_exact", "in_tf32", "broken"), [(1, 1, "exact"), (0, 0, "matrix_units"), (1, 0, ""), (0, 1, "")]
)
def test_errors_tell_tf32_from_float32(is_exact: int, in_tf32: int, broken: str) -> None:
    chance = torch.Generator().manual_seed(0)
    rows, table = torch.randn(64, 256, generator=chance), torch.randn(128, 256, generator=chance)
    product = narrowed(rows) @ narrowed(table).T if in_tf32 else rows @ table.T
    gpu = SimulatedGpu(HOSTS[0])
    gpu.launch("aten::mm", 145 * MICROSECOND)
    drawn = {"vectors": list(rows), "table": table, "exact": bool(is_exact), "tf32_on": True}
    run = gpu.run_of(observed(product, "cuda:0"), drawn)
    failed = [name for name in ("exact", "matrix_units") if not passes(run, "tensor_cores", name)]
    assert failed == ([broken] if broken else [])


@pytest.mark.parametrize(("machine", "applies"), [(REAL_GPU, True), (GPU, False)])
def test_matrix_units_are_judged_by_errors_on_real_gpus(machine: Machine, applies: bool) -> None:
    """The virtual GPU computes TF32 with all digits, and judges its modelled time."""
    assert check_of("tensor_cores", "matrix_units").applies(machine) is applies

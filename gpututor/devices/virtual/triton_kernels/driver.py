"""Triton's driver for a virtual GPU (`triton.runtime.driver.active`), and benchmarks by modelled time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from gpututor.devices.virtual.clock.timeline import WHOLE
from gpututor.devices.virtual.execution.launch import kernel_of_length
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.triton_kernels.triton_private import GPUTarget

_BUSY_NS = 200_000
"""Nanoseconds of the kernel that runs before each timed call."""
BENCHMARK_CALLS = 3
"""Timed calls of `triton.testing.do_bench`; a few suffice, because modelled times hardly vary."""


def no_driver() -> RuntimeError:
    """Return the error of a machine without a GPU (triton/runtime/driver.py)."""
    return RuntimeError("0 active drivers ([]). There should only be one.")


class _Utilities:
    def get_device_properties(self, device: int) -> dict[str, int]:
        spec = active_machine().gpu(device).spec
        return {
            "max_shared_mem": spec.shared_bytes_per_block_at_most,
            "max_num_regs": 65536,
            "multiprocessor_count": spec.multiprocessors,
            "warpSize": 32,
            "sm_clock_rate": spec.clock_khz,
            "mem_clock_rate": spec.memory_clock_khz,
            "mem_bus_width": spec.memory_bus_bits,
        }


class VirtualDriver:
    """Stand-in for Triton's driver of NVIDIA GPUs."""

    def __init__(self) -> None:
        self.utils = _Utilities()

    @staticmethod
    def is_active() -> bool:
        return bool(active_machine().gpus)

    def get_current_device(self) -> int:
        if not active_machine().gpus:
            raise no_driver()
        return active_machine().current.index

    def set_current_device(self, device: int) -> None:
        torch.cuda.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        return int(torch.cuda.current_stream(device).cuda_stream)

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return active_machine().gpu(self.get_current_device() if device is None else device).spec.capability

    def get_current_target(self) -> Any:
        major, minor = self.get_device_capability()
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self.get_current_device())

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Any]:
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        return None

    def clear_cache(self, cache: Any) -> None:
        """Do nothing: the modelled time of a launch does not depend on the launch before it."""

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise NotImplementedError("The virtual GPU compiles no launcher.")


def do_bench(
    fn: Callable[[], Any],
    warmup: int = 25,
    rep: int = 100,
    grad_to_none: Any = None,
    quantiles: Any = None,
    return_mode: str = "mean",
) -> Any:
    """Return the milliseconds of modelled time that `fn()` takes on the GPU, as Triton's function of that name."""
    assert return_mode in ["min", "max", "mean", "median", "all"]
    fn()
    times = []
    for _ in range(BENCHMARK_CALLS):
        for tensor in grad_to_none or ():
            tensor.grad = None
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        # Keeps the GPU busy while the host launches `fn`; Triton's function clears the cache here.
        machine = active_machine()
        kernel_of_length(machine, machine.current, "triton.testing.do_bench", _BUSY_NS, WHOLE)
        began.record()
        fn()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended))
    if quantiles is not None:
        values = np.quantile(times, quantiles).tolist()
        return values[0] if len(values) == 1 else values
    return times if return_mode == "all" else float(getattr(np, return_mode)(times))


class WarmedKernel:
    """The kernel that `kernel.warmup(...)` returns, with facts estimated from one program."""

    def __init__(
        self,
        name: str,
        registers: int,
        shared_bytes: int,
        num_warps: int,
        num_stages: int,
        launch: Callable[..., None],
    ) -> None:
        self.name = name
        self._launch = launch
        self.n_regs = registers
        self.n_spills = 0
        self.metadata = SimpleNamespace(shared=shared_bytes, num_warps=num_warps, num_stages=num_stages, name=name)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """Return a function that launches the kernel, given all its arguments."""
        return partial(self._launch, grid=grid)

    def _init_handles(self) -> None:
        """Do nothing: nothing is loaded."""

"""Readings that NVML gives for a real GPU, modelled from the work of the last second of modelled time.

The formulas are models, each with its source. They show how a program's load changes the readings; they do not predict
the readings of one board. The model's clock and voltage are constant.
"""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual.api.devices import gpu_of
from gpututor.devices.virtual.machine import active_machine

_IDLE_SHARE = 1 / 8
"""Power of an idle board as a share of its limit. In nvidia-smi a T4 has 9 of 70 W, an A100 50 of 400 W."""
_INLET_C = 27
"""Temperature of the air: the upper end of the recommended range (ASHRAE TC 9.9, Thermal Guidelines, 2011)."""
_TARGET_C = 83
"""Temperature at the power limit: the default target of GPU Boost (GeForce GTX 1080 white paper, 2016)."""


def utilization(device: Any = None) -> int:
    """Return the percentage of the last second in which kernels ran (NVML: nvmlUtilization_t.gpu)."""
    return round(100 * _load(device)[0])


def memory_usage(device: Any = None) -> int:
    """Return the percentage of the last second in which memory was read or written (nvmlUtilization_t.memory).

    It is the time that the kernels' bytes take at the memory's peak rate.
    """
    busy, moved = _load(device)
    return round(100 * min(busy, moved / gpu_of(device).spec.bytes_per_s))


def power_draw(device: Any = None) -> int:
    """Return milliwatts, which grow linearly with utilization, from idle to the board's limit.

    Fan, Weber and Barroso, "Power Provisioning for a Warehouse-sized Computer", ISCA 2007, equation 1.
    """
    idle_mw = 1000 * gpu_of(device).spec.board_watts * _IDLE_SHARE
    limit_mw = 1000 * gpu_of(device).spec.board_watts
    return round(idle_mw + (limit_mw - idle_mw) * _load(device)[0])


def temperature(device: Any = None) -> int:
    """Return degrees Celsius: the air's plus a rise in proportion to the power (a constant thermal resistance)."""
    share = power_draw(device) / (1000 * gpu_of(device).spec.board_watts)
    return round(_INLET_C + (_TARGET_C - _INLET_C) * share)


def clock_rate(device: Any = None) -> int:
    """Return the multiprocessors' highest clock in MHz; unlike kernel times, it ignores the power limit."""
    return gpu_of(device).spec.clock_khz // 1000


def device_memory_used(device: Any = None) -> int:
    """Return the bytes that this process has reserved. No other process or CUDA context uses memory."""
    memory = gpu_of(device).memory
    return memory.total - memory.free


def _load(device: Any) -> tuple[float, float]:
    return active_machine().clock.recent_work(gpu_of(device).index)

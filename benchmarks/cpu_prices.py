"""Modelled times of CPU operators, compared with this machine's on a single thread, to find absurd figures.

    python benchmarks/cpu_prices.py [--cpu NAME]

The model's CPU differs from this machine's, so a ratio far from 1 is a hint, not an error.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import prod

import torch

from gpututor.devices.virtual.cost.cpu import CpuSpec, cpu_price_s, cpu_spec
from gpututor.devices.virtual.cost.memory_traffic import Tensor
from gpututor.devices.virtual.execution.costs import flops_of

aten = torch.ops.aten
_ROUNDS, _LEAST_S = 7, 0.01
"""Rounds, and minimum seconds of a round. The shortest round counts: other programs only make rounds longer."""
Call = tuple[object, tuple[object, ...]]


def _cases() -> dict[str, Callable[[int], Call]]:
    def rows(size: int, width: int = 256) -> torch.Tensor:
        return torch.rand(max(size // width, 1), width)

    def matrix(size: int) -> torch.Tensor:
        return torch.rand(max(int(size**0.5), 1), max(int(size**0.5), 1))

    def images(size: int) -> torch.Tensor:
        return torch.rand(max(size // (16 * 32 * 32), 1), 16, 32, 32)

    return {
        "add": lambda size: (aten.add.Tensor, (torch.rand(size), torch.rand(size))),
        "relu": lambda size: (aten.relu.default, (torch.rand(size),)),
        "exp": lambda size: (aten.exp.default, (torch.rand(size),)),
        "tanh": lambda size: (aten.tanh.default, (torch.rand(size),)),
        "sum": lambda size: (aten.sum.default, (torch.rand(size),)),
        "copy": lambda size: (aten.clone.default, (torch.rand(size),)),
        "softmax": lambda size: (aten._softmax.default, (rows(size), 1, False)),
        "layer_norm": lambda size: (
            aten.native_layer_norm.default, (rows(size), [256], torch.rand(256), torch.rand(256), 1e-5)
        ),
        "cumsum": lambda size: (aten.cumsum.default, (rows(size), 1)),
        "sort": lambda size: (aten.sort.default, (rows(size), 1)),
        "index_select": lambda size: (
            aten.index_select.default, (rows(size), 0, torch.randint(0, max(size // 256, 1), (max(size // 256, 1),)))
        ),
        "mm": lambda size: (aten.mm.default, (matrix(size), matrix(size))),
        "convolution": lambda size: (
            aten.convolution.default,
            (images(size), torch.rand(16, 16, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        ),
    }  # fmt: skip


def _measured_s(func: Callable[..., object], args: tuple[object, ...]) -> float:
    func(*args)
    times = []
    for _ in range(_ROUNDS):
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < _LEAST_S:
            func(*args)
            count += 1
        times.append((time.perf_counter() - start) / count)
    return min(times)


def _described(values: object) -> list[Tensor]:
    listed = values if isinstance(values, list | tuple) else [values]
    return [(tuple(tensor.shape), str(tensor.dtype)[6:]) for tensor in listed if isinstance(tensor, torch.Tensor)]


def _line(cpu: CpuSpec, label: str, make: Callable[[int], Call]) -> str:
    parts = []
    for power in (8, 12, 16, 20, 24):
        func, args = make(2**power)
        out = func(*args)  # type: ignore[operator]
        modelled = cpu_price_s(
            cpu, str(func), _described(args), _described(out), flops_of(func, args, {}, out), threads=1
        )
        measured = _measured_s(func, args)  # type: ignore[arg-type]
        assert prod(_described(out)[0][0]) > 0 or label == "sum"
        parts.append(f"{modelled / measured:6.2f} ({measured * 1e6:9.1f} µs)")
    return f"{label:14}" + "".join(parts)


def main() -> None:
    """Print modelled over measured time of each operator, from 2^8 to 2^24 elements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", default="", help="the CPU of cpus.toml; the first one by default")
    cpu = cpu_spec(parser.parse_args().cpu)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    print(f"{cpu.name}, one thread: modelled over measured time here (measured time)")
    print(f"{'elements':14}" + "".join(f"{2**power:>22}" for power in (8, 12, 16, 20, 24)))
    for label, make in _cases().items():
        print(_line(cpu, label, make), flush=True)


if __name__ == "__main__":
    main()

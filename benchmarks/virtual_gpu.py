"""Cost of the virtual GPU: an operator against `FakeTensorMode`, training against the CPU, compiled code against eager.

Run it with `python benchmarks/virtual_gpu.py [ROUNDS]`. Uses one thread. In every round each contender runs in turn, so
a slow moment affects all of them. Prints the medians and their ratios. The virtual GPU does the same work as for a
graded exercise. It checks devices, counts memory, runs its clock, looks for races, and records each event with its
line. Nothing is asserted.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from time import perf_counter, process_time  # bound here: inside the block, `time.perf_counter` is the virtual clock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu

Step = Callable[[], object]
Context = Callable[[], AbstractContextManager[object]]
REPEATS = {"operator": 300, "step": 10, "compiled": 20}


def addition(device: str) -> Step:
    x, y = torch.ones(4, 4, device=device), torch.ones(4, 4, device=device)
    return lambda: x + y


def training(device: str, inputs: int, hidden: int, batch: int) -> Step:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(batch, inputs, device=device)
    y = torch.randint(0, 10, (batch,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def forward(*, compiled: bool) -> Step:
    """Return a call of six small linear layers with their activations; the first call compiles."""
    layers = (layer for _ in range(6) for layer in (torch.nn.Linear(128, 128), torch.nn.GELU()))
    model = torch.nn.Sequential(*layers).to("cuda")
    x = torch.randn(64, 128, device="cuda")
    called = torch.compile(model) if compiled else model

    def step() -> None:
        with torch.no_grad():
            called(x)

    return step


def elapsed_us(step: Step, repeats: int) -> float:
    """Return microseconds of a call, of `repeats` calls in a row."""
    start = perf_counter()
    for _ in range(repeats):
        step()
    return (perf_counter() - start) / repeats * 1e6


def recorded() -> AbstractContextManager[object]:
    return virtual_gpu(recorder=Recorder([__file__]))


Contenders = dict[str, tuple[Context, Callable[[], Step]]]
OPERATOR: Contenders = {
    "FakeTensorMode, on cpu": (FakeTensorMode, lambda: addition("cpu")),
    "virtual GPU": (recorded, lambda: addition("cuda")),
    "plain CPU": (nullcontext, lambda: addition("cpu")),
}
SHAPES = ((64, 128, 32), (784, 128, 64))
"""Inputs, hidden neurons and batch of the models that are trained."""
COMPILED: Contenders = {
    "virtual GPU, eager": (recorded, lambda: forward(compiled=False)),
    "virtual GPU, compiled": (recorded, lambda: forward(compiled=True)),
}


def steps(inputs: int, hidden: int, batch: int) -> Contenders:
    """Return the contenders of a training step."""

    def on(device: str) -> Callable[[], Step]:
        return lambda: training(device, inputs, hidden, batch)

    return {
        "plain CPU": (nullcontext, on("cpu")),
        "virtual GPU": (recorded, on("cuda")),
        "virtual GPU, nothing recorded": (virtual_gpu, on("cuda")),
    }


def medians_us(contenders: Contenders, repeats: int, rounds: int) -> dict[str, float]:
    """Return the median microseconds of each, on one thread."""
    torch.set_num_threads(1)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (context, make) in contenders.items():
            with context():
                step = make()
                for _ in range(3):
                    step()
                times[name].append(elapsed_us(step, repeats))
    return {name: statistics.median(measured) for name, measured in times.items()}


def compare(title: str, contenders: Contenders, repeats: int, rounds: int) -> None:
    """Print the median of each, and its ratio to the first."""
    print(title)
    medians = medians_us(contenders, repeats, rounds)
    baseline = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"  {name:<34} {median:>8.1f} µs   ratio {median / baseline:>5.2f}")


def triton_seconds(elements: int = 1_000_000) -> float:
    """Return the processor seconds of a Triton kernel that adds two vectors in blocks of 1,024."""
    import triton
    from triton_kernel import add

    with virtual_gpu(recorder=Recorder([__file__])):
        x, y = torch.rand(elements, device="cuda"), torch.rand(elements, device="cuda")
        out = torch.empty_like(x)
        for size in (1024, elements):
            began = process_time()
            add[(triton.cdiv(size, 1024),)](x, y, out, size, BLOCK=1024)
        return process_time() - began


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    compare("Addition of two 4 x 4 tensors", OPERATOR, REPEATS["operator"], rounds)
    for shape in SHAPES:
        inputs, hidden, batch = shape
        title = f"A training step with Adam: {inputs}-{hidden}-10, batch {batch}"
        compare(title, steps(*shape), REPEATS["step"], rounds)
    compare("A later call of six layers without gradients", COMPILED, REPEATS["compiled"], max(rounds // 6, 1))
    if find_spec("triton") is not None:
        print(f"A Triton kernel of 1,000,000 elements in blocks of 1,024\n  {triton_seconds():.2f} s of processor time")


if __name__ == "__main__":
    main()

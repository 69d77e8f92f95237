"""Cost of the virtual GPU: an operator against `FakeTensorMode`, training against the CPU, compiled code against eager.

Run it with `python benchmarks/virtual_gpu.py [ROUNDS]`. Uses one thread. In every round each contender runs in turn, so
a slow moment affects all of them. Prints the medians and their ratios. The virtual GPU does the same work as for a
graded exercise. It checks devices, counts memory, runs its clock, looks for races, and records each event with its
line. `wrappers only` is a simple dispatch mode without any of that. Nothing is asserted.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from time import perf_counter, process_time  # bound here: inside the block, `time.perf_counter` is the virtual clock
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.torch_private import make_wrapper, plain_function

Step = Callable[[], object]
Context = Callable[[], AbstractContextManager[object]]
META = torch.device("meta")
REPEATS = {"operator": 300, "step": 10, "compiled": 20}


class Wrapper(torch.Tensor):
    """Tensor on the meta device with its values in `host`."""

    host: torch.Tensor
    __torch_function__ = plain_function

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise NotImplementedError("only `WrapperMode` runs operators")


def wrapped(host: torch.Tensor) -> Wrapper:
    wrapper: Wrapper = make_wrapper(Wrapper, host.shape, host.stride(), dtype=host.dtype, device=META)
    wrapper.host = host
    return wrapper


class WrapperMode(TorchDispatchMode):
    """Mode that unwraps tensors, runs the operator, and wraps the results, and does nothing else."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if Wrapper not in types:
            return func(*args, **(kwargs or {}))
        wrappers: dict[int, Wrapper] = {}

        def unwrap(value: Any) -> Any:
            if type(value) is Wrapper:
                wrappers[id(value.host)] = value
                return value.host
            return [unwrap(part) for part in value] if type(value) in (list, tuple) else value

        out = func(*map(unwrap, args), **{name: unwrap(value) for name, value in (kwargs or {}).items()})
        if isinstance(out, torch.Tensor):
            return wrappers.get(id(out)) or wrapped(out)
        return tree_map(lambda part: wrapped(part) if isinstance(part, torch.Tensor) else part, out)


Move = Callable[[torch.Tensor], torch.Tensor]


def on(device: str) -> Move:
    return lambda tensor: tensor.to(device)


def addition(move: Move) -> Step:
    x, y = move(torch.ones(4, 4)), move(torch.ones(4, 4))
    return lambda: x + y


def training(move: Move, inputs: int, hidden: int, batch: int) -> Step:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
    for layer in model:
        for name, parameter in list(layer.named_parameters()):
            setattr(layer, name, torch.nn.Parameter(move(parameter.detach())))
    # CUDA's default; the CPU's is a loop.
    optimizer = torch.optim.Adam(model.parameters(), foreach=True if move is wrapped else None)
    x = move(torch.randn(batch, inputs))
    y = move(torch.randint(0, 10, (batch,)))

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
    "FakeTensorMode, on cpu": (FakeTensorMode, lambda: addition(on("cpu"))),
    "virtual GPU": (recorded, lambda: addition(on("cuda"))),
    "wrappers only": (WrapperMode, lambda: addition(wrapped)),
    "plain CPU": (nullcontext, lambda: addition(on("cpu"))),
}
SHAPES = ((64, 128, 32), (784, 128, 64))
"""Inputs, hidden neurons and batch of the models that are trained."""
COMPILED: Contenders = {
    "virtual GPU, eager": (recorded, lambda: forward(compiled=False)),
    "virtual GPU, compiled": (recorded, lambda: forward(compiled=True)),
}


def steps(inputs: int, hidden: int, batch: int) -> Contenders:
    """Return the contenders of a training step."""

    def trained(move: Move) -> Callable[[], Step]:
        return lambda: training(move, inputs, hidden, batch)

    return {
        "plain CPU": (nullcontext, trained(on("cpu"))),
        "wrappers only": (WrapperMode, trained(wrapped)),
        "virtual GPU": (recorded, trained(on("cuda"))),
        "virtual GPU, nothing recorded": (virtual_gpu, trained(on("cuda"))),
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

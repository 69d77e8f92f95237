"""Cross-checks: a worker's report, compared with what the judge computes from the inputs that it drew itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from gpututor.checks.model import Reference, Run
from gpututor.checks.trees import map_tensors
from gpututor.protocol.encode import Encoder
from gpututor.protocol.values import tensors_in
from gpututor.trace.events import Kind
from gpututor.trace.formatting import size

_LEAST_SHARE = 0.5
"""Share of the needed bytes that the trace must account for. Every honest kernel counts its inputs whole."""


def changed_inputs(run: Run, honest: Callable[[], Run]) -> Iterator[str]:
    """Yield a sentence if the worker's digests of arguments before a call are not those of the drawn inputs.

    `build` runs in the worker and may change an input itself. So if a digest differs, `honest` runs the exercise's own
    solution on the same inputs, for comparison. Arguments that `build` makes are not compared.
    """
    for number, calls in enumerate(run.repetitions):
        drawn = _digests(calls[0].drawn)
        for rank, own in ((rank, own) for call in calls for rank, own in enumerate(call.ranks or (call,))):
            differing = [path for path in drawn.keys() & own.before.keys() if own.before[path] != drawn[path]]
            if not differing:
                continue
            other = honest().calls[number]
            before = (other.ranks or (other,))[rank].before
            if changed := sorted(path for path in differing if before.get(path) == drawn[path]):
                names = ", ".join(changed[:3])
                yield f"call {number + 1}: before it began, {names} differed from what the judge sent"
                return


def unread_inputs(run: Run, references: Sequence[Reference]) -> Iterator[str]:
    """Yield a sentence if the result depends on more bytes of a device than the traced work read.

    The run's values must be right. Any algorithm must read each element that the result depends on. It reads them on
    their device, by a kernel, a copy or a collective. Only the first call is examined.
    """
    if not (run.calls and references) or run.calls[0].ranks:
        return
    call = run.calls[0]
    inputs = min((needed_bytes(file, call.drawn) for file in references), key=lambda sizes: sum(sizes.values()))
    digests = _digests(call.drawn)
    by_values = {digests[path]: needs for path, needs in inputs.items() if call.before.get(path) == digests[path]}
    needed: Counter[str] = Counter()
    for digest, size_bytes in by_values.items():
        places = {fact.device for path, fact in call.arguments.items() if call.before.get(path) == digest}
        if len(places) == 1 and "cpu" not in places:
            needed[places.pop()] += size_bytes
    for device, size_bytes in needed.items():
        read = sum(
            event.size_bytes
            for event in call.trace
            if event.kind in (Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)
            and device in (event.device, event.source, event.target)
        )
        if read < _LEAST_SHARE * size_bytes:
            yield f"call 1: the result depends on {size(size_bytes)} of {device}; the traced work read {size(read)}"


def needed_bytes(reference: Reference, drawn: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of each floating input with a derivative other than zero, by path. Empty if it is unknown."""
    widened: dict[int, torch.Tensor] = {}

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor.detach().clone()
        if id(tensor) not in widened:
            widened[id(tensor)] = tensor.detach().to(torch.float64, copy=True).requires_grad_()
        return widened[id(tensor)]

    chance = torch.Generator().manual_seed(0)
    state = torch.get_rng_state()
    try:
        with torch.enable_grad():
            arguments = {name: map_tensors(value, leaf) for name, value in drawn.items()}
            outputs = [output for output in tensors_in(reference(**arguments)).values() if output.requires_grad]
            weights = [torch.rand(output.shape, generator=chance, dtype=torch.float64) + 0.5 for output in outputs]
            weights = [weight.to(output.dtype) for weight, output in zip(weights, outputs, strict=True)]
            leaves = [*widened.values()]
            # Sum to one number: gradients of tensors, with weights as an argument, import SymPy, 48 MiB in each judge.
            sums = (_real_sum(weight * output) for weight, output in zip(weights, outputs, strict=True))
            total = sum(sums, start=torch.zeros((), dtype=torch.float64))
            grads = torch.autograd.grad([total], leaves, allow_unused=True) if outputs and leaves else ()
    except Exception:  # an author's reference may write in place, or have no derivative
        return {}
    finally:
        torch.set_rng_state(state)
    elements = {key: int(grad.count_nonzero()) for key, grad in zip(widened, grads, strict=False) if grad is not None}
    needed = {path: elements.get(id(tensor), 0) * tensor.element_size() for path, tensor in tensors_in(drawn).items()}
    return {path: size_bytes for path, size_bytes in needed.items() if size_bytes}


def _real_sum(tensor: torch.Tensor) -> torch.Tensor:
    total = tensor.sum()
    return (total.real if total.is_complex() else total).to(torch.float64)


def _digests(drawn: dict[str, Any]) -> dict[str, str]:
    tensors = tensors_in(drawn).items()
    return Encoder().digests({path: tensor for path, tensor in tensors if tensor.layout is torch.strided})

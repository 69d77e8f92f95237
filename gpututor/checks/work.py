"""Work: the floating-point operations that results need, and the number that the devices did.

The modelled clock counts only PyTorch's operators: a product that NumPy computes on the host costs nothing. So a time
counts only if the devices did the work. Operations are counted as PyTorch's `FlopCounterMode` does: of matrix products
and convolutions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from gpututor.checks.model import Call, Check, Finding, Reference, Run, run_reference
from gpututor.errors import CourseError
from gpututor.trace.formatting import operations

LEAST_SHARE = 0.9
"""Share of the reference's operations that the devices must do."""
WHY = "Work that the device does not do takes no time on it, so this time says nothing about the device."
ADVICE = "Compute on the device, with PyTorch: what NumPy or Python compute on the host cannot be timed here."


def reference_flops(checks: Sequence[Check], run: Run) -> tuple[float, ...]:
    """Return for each call the fewest operations of a reference, which the judge itself runs; 0 if they are unknown."""
    references = [check.tolerance.reference for check in checks if check.tolerance and check.applies(run.machine)]
    return tuple(min((_flops(reference, call.drawn) for reference in references), default=0.0) for call in run.calls)


class _Counter(TorchDispatchMode):
    """Counts as `FlopCounterMode` does, which would import `torch._dynamo`: 75 MiB in each judge, and a second."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0.0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        formula = flop_registry.get(getattr(func, "overloadpacket", None))
        if formula is None and hasattr(func, "decompose"):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if formula is not None:
            self.flops += formula(*args, **kwargs, out_val=result)
        return result


def _flops(reference: Reference, drawn: dict[str, Any]) -> float:
    counter = _Counter()
    try:
        with counter:
            run_reference(reference, drawn, in_float64=False)
    except CourseError:
        return 0.0  # such as an operator that the CPU lacks in half precision; parity runs it in float64
    return counter.flops


def flops_by_device(call: Call) -> dict[str, float]:
    """Return the operations that a call did, by device."""
    flops: defaultdict[str, float] = defaultdict(float)
    for event in call.trace:
        if event.flops:
            flops[event.device] += event.flops
    return flops


def missing_work(run: Run, baseline: str = "") -> Finding | None:
    """Return a finding for the first call of a virtual run whose devices did less than the reference needs.

    `baseline` names a file whose honest run may need less than the reference; then it sets the limit.
    """
    if not run.machine.virtual or run.machine.device == "cpu" or not run.reference_flops:
        return None
    others = run.baselines.get(baseline, ())
    for position, (call, needed) in enumerate(zip(run.calls, run.reference_flops, strict=True)):
        if position < len(others):
            needed = min(needed, _on_devices(flops_by_device(others[position])))
        flops = flops_by_device(call)
        if _on_devices(flops) < LEAST_SHARE * needed:
            devices = f"{run.machine.device} and the other devices" if run.machine.gpus > 1 else run.machine.device
            host = f"; PyTorch did {operations(flops['cpu'])} on the CPU" if "cpu" in flops else ""
            expected = f"at least {LEAST_SHARE:.0%} of the work, {operations(needed)}, done on {devices}"
            got = f"{operations(_on_devices(flops))} there{host}"
            return replace(run.finding(call, expected, got, _line_on_the_host(call), ADVICE), why=WHY)
    return None


def _on_devices(flops: dict[str, float]) -> float:
    return sum(done for device, done in flops.items() if device != "cpu")


def _line_on_the_host(call: Call) -> int | None:
    """Return the line with most operations on the CPU."""
    flops: defaultdict[int, float] = defaultdict(float)
    for event in call.trace:
        if event.device == "cpu" and event.flops and event.line is not None:
            flops[event.line] += event.flops
    return max(flops, key=flops.__getitem__, default=None)

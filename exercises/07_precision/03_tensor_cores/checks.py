"""A single product, the right values, the time of good code, and exact products that are exact."""

from __future__ import annotations

import torch

from gpututor.checks import Call, Check, Finding, Machine, Run, launches, parity, placement, speed, structure, syncs
from gpututor.checks.model import on_virtual_gpu
from gpututor.trace.events import Kind

SLOWER = 1.15
"""Allowed factor over the time of good code's kernels."""
EXACT_ERROR = 1e-5
"""Relative error between the types: float32 stays far below it at any length, and TF32 and float16 are at 3e-4."""


def reference(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool, tf32_on: bool) -> torch.Tensor:
    """All rows at once, in the dtype of the inputs."""
    return torch.einsum("mk,nk->nm", table, torch.stack(vectors))


def product_ns(call: Call) -> int:
    """Nanoseconds of the call's products on the device."""
    return sum(event.duration for event in call.trace if event.kind is Kind.KERNEL and event.name.endswith("mm"))


def error_of(call: Call) -> float:
    """Relative error of the result, compared with float64."""
    vectors = [vector.double() for vector in call.drawn["vectors"]]
    wanted = reference(vectors, call.drawn["table"].double(), exact=True, tf32_on=False)
    return float((call.output.values.double() - wanted).norm() / wanted.norm())


def find_inexact(run: Run) -> Finding | None:
    """An exact product with errors, or, on the virtual GPU, in less time than float32 takes.

    The virtual GPU computes TF32 with all digits of float32. A real one rounds, so that its errors are enough.
    """
    good = run.baselines["baseline.py"] if run.machine.virtual else ()
    for position, call in enumerate(run.calls):
        if not call.drawn["exact"]:
            continue
        error = error_of(call)
        if error > EXACT_ERROR:
            got = f"a relative error of {error:.1e}{run.which(call)}"
            return Finding(f"a relative error of at most {EXACT_ERROR:.0e}", got, run.line_of(call))
        if good and 0 < 1.3 * product_ns(call) < product_ns(good[position]):
            got = f"a product that took {product_ns(call) / 1000:.1f} µs, as TF32 does{run.which(call)}"
            expected = f"a float32 product: {product_ns(good[position]) / 1000:.1f} µs (modelled)"
            return Finding(expected, got, run.line_of(call))
    return None


def find_too_exact(run: Run) -> Finding | None:
    """An inexact product with all digits of float32: the matrix units of a real GPU did not compute it."""
    for call in run.calls:
        if not call.drawn["exact"] and (error := error_of(call)) < EXACT_ERROR:
            got = f"a relative error of {error:.1e}, as float32 has{run.which(call)}"
            return Finding("a product in TF32 or float16, with an error of about 3e-04", got, run.line_of(call))
    return None


def is_from_nvidia(machine: Machine) -> bool:
    """True on a real GPU whose matrix units round: those of AMD report a capability of 9.0, but most have no TF32."""
    return not machine.virtual and machine.device.startswith("cuda") and "AMD" not in machine.gpu_name


def find_switch(run: Run) -> Finding | None:
    """Find a call that does not restore the switch."""
    for call in run.calls:
        is_on, was_on = call.fp32_precision == "tf32", call.drawn["tf32_on"]
        if is_on != was_on:
            expected = f"TF32 {'on' if was_on else 'off'} after the call, as before it"
            return Finding(expected, f"TF32 is {'on' if is_on else 'off'}{run.which(call)}", run.line_of(call))
    return None


def gpu_ns(call: Call) -> int:
    return sum(event.duration for event in call.trace if event.kind is Kind.KERNEL and event.device != "cpu")


def find_slow(run: Run) -> Finding | None:
    """Find a call whose kernels, the casts among them, take longer than those of good code."""
    for call, good in zip(run.calls, run.baselines["baseline.py"], strict=True):
        if gpu_ns(call) > SLOWER * gpu_ns(good):
            expected = f"at most {SLOWER} times the {gpu_ns(good) / 1000:.1f} µs of good code on the GPU"
            kernels = (event for event in call.trace if event.kind is Kind.KERNEL)
            longest = max(kernels, key=lambda event: event.duration)
            return Finding(expected, f"{gpu_ns(call) / 1000:.1f} µs (modelled){run.which(call)}", longest.line)
    return None


def exact_sentence(machine: Machine) -> str:
    return "Exact products run in full float32"


checks = [
    structure(
        reference,
        advice="Stack the vectors into one matrix. The result is float32 in any case.",
    ),
    placement("device", advice="Stay on the GPU: vectors and table are there."),
    launches(
        by_name={"aten::*mm": 1},
        why="A matrix times a vector reads the whole table for one row; the matrix units have nothing to reuse.",
        advice="torch.stack(vectors) makes a matrix of them: one product does them all.",
    ),
    syncs(at_most=0, why="A wait in the middle leaves the GPU idle.", advice="Do not look into tensors here."),
    parity(
        reference,
        inside=torch.float16,
        why="The mantissa of TF32 and float16 has 10 bits, bfloat16's only 7.",
        advice="float16 is close enough for these values; bfloat16 is not.",
    ),
    Check(
        "exact",
        exact_sentence,
        find_inexact,
        needs=("structure",),
        why="The switch is global: other code may have turned it on before it calls you.",
        advice="Do not assume how the switch is set. Set it as this product needs it.",
    ),
    Check(
        "matrix_units",
        lambda _: "Inexact products run in a type of the matrix units",
        find_too_exact,
        needs=("structure",),
        why="float32 without TF32 leaves the matrix units idle.",
        advice="Ask torch.cuda.get_device_capability(). TF32 casts nothing; without it, float16 is worth its casts.",
        on=is_from_nvidia,
    ),
    Check(
        "switch",
        lambda _: "project() leaves the TF32 switch as it was",
        find_switch,
        needs=("structure",),
        why="The switch is global: the program's next float32 product may have to be exact.",
        advice="Store the switch's value before you change it, and restore it after the product.",
    ),
    Check(
        "gpu_time",
        lambda _: f"The GPU needs at most {SLOWER} times as long as for good code",
        find_slow,
        needs=("structure",),
        why="float32 without TF32 leaves the matrix units idle; casts of the table cost time as well.",
        advice="Ask torch.cuda.get_device_capability(). TF32 casts nothing; without it, float16 is worth its casts.",
        on=on_virtual_gpu,
        timed=True,
    ),
    speed(
        4,
        compared_with="good code",
        why="While the host prepares a product, the GPU has nothing to do.",
        advice="torch.stack joins the vectors in one operator. torch.vstack and a loop make a view of each first.",
    ),
]

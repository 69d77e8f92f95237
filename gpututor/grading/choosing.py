"""Which device a grading is done on: what was asked for, what the exercise allows, and what a machine has."""

from __future__ import annotations

from collections.abc import Mapping

from gpututor.course.exercise import Exercise
from gpututor.errors import NotGradableHere, UsageError

ACCELERATORS = ("cuda", "mps", "xpu")


def chosen(exercise: Exercise, wanted: str, here: Mapping[str, int]) -> tuple[str, int]:
    """Kind and number of the device. `wanted`: as in `GradeRequest.device`; `here`: how many real ones of each kind.

    Raises `NotGradableHere` when this machine, or the exercise, cannot do what was asked; `UsageError` for a device
    that nobody knows.
    """
    kind, _, number = wanted.partition(":")
    if kind == "auto":
        real = [name for name in ACCELERATORS if here.get(name) and name in exercise.devices]
        return (real[0] if real else "virtual"), 0
    check_known(wanted)
    if kind not in exercise.devices:
        fitting = ", ".join(exercise.devices)
        raise NotGradableHere(
            f"On {kind} this exercise cannot show what it is about.",
            f"It is graded on: {fitting}. Try --device virtual.",
        )
    index = int(number or 0)
    if kind in ACCELERATORS and here.get(kind, 0) <= index:
        raise NotGradableHere(
            f"This machine has no device {wanted}.",
            "`gpututor devices` lists what is here, `gpututor doctor` what works. Try --device virtual.",
        )
    return kind, index


def check_known(wanted: str) -> None:
    """Raises `UsageError` for a device that nobody knows."""
    kind, _, number = wanted.partition(":")
    if kind not in ("auto", "virtual", "cpu", *ACCELERATORS) or (number and not number.isdigit()):
        raise UsageError(f"There is no device called {wanted!r}.", "Use auto, virtual, cpu, cuda, cuda:N, mps or xpu.")


def device_in_key(kind: str, model: str) -> str:
    """As `GradingKey.device` has it. `model`: of a real device, or of the virtual GPU where one was asked for."""
    return f"{kind} {model}" if model and kind != "cpu" else kind

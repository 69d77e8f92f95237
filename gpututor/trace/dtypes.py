"""The floating types that kernels run in, by name. No torch here."""

from __future__ import annotations

from collections.abc import Iterable

DTYPES = (
    "",
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float16", "bfloat16", "float32", "float64"),
    *("complex32", "complex64", "complex128"),
)
"""From narrow to wide; the first is none, or one that is not among them. A trace keeps the position."""
NUMBERS = {name: number for number, name in enumerate(DTYPES)}
HALVES = ("float16", "bfloat16")


def ran_in(inputs: Iterable[str], outputs: Iterable[str]) -> str:
    """The wider of the first floating type among an operator's inputs and the first among its outputs; "" without.

    Types are named as in PyTorch, without its name: `float32`. What reads half precision and gives float32, as a
    softmax can, computes in float32; so does what reads float32 and rounds at its end.
    """
    first = [next((NUMBERS[name] for name in names if name in NUMBERS), 0) for names in (inputs, outputs)]
    return DTYPES[max(first)]

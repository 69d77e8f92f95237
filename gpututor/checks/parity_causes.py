"""The cause of a wrong result, in words, where the values single it out: an order, a factor, an offset.

The size of an error alone names no cause. It is compared with what a lower precision would give, no more.
"""

from __future__ import annotations

import torch

from gpututor.checks.parity_gates import Errors, Gates, errors_of

_MOST = 1 << 20
"""Elements up to which a result is sorted to find its cause."""
_FEW = 0.05
_MANY = 0.25
_HALF = "TF32 or float16"
_NONSENSE = 0.1
_LEFT = 0.1
"""Share of the error that may remain when a cause is taken for the whole of it."""


def cause_of(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: Gates, dtype: torch.dtype) -> str:
    """Advice for a floating `got` that is not `ref` (of the same shape) within the `gates` of `dtype`."""
    if bool(errors.strange.any()):
        return _strange_cause(got, ref, errors.strange)
    if got.numel() and not bool(got.any()):
        return "The result is all zeros: was it ever written?"
    return _by_pattern(got, ref, errors, gates) or _by_size(errors, dtype, gates)


def _strange_cause(got: torch.Tensor, ref: torch.Tensor, strange: torch.Tensor) -> str:
    if bool((strange & got.isnan()).any()):
        return "NaN comes from 0/0, inf - inf, the root or log of a negative number, or memory that was never written."
    if bool((strange & got.isinf()).any()):
        limit = "; float16 ends at 65,504" if got.dtype is torch.float16 else ""
        return f"inf comes from a division by zero, or from a number that is too large for a dtype inside{limit}."
    return "Where the reference has inf or nan, so must the result."


def _by_pattern(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: Gates) -> str:
    """Name an order, a factor or an offset that explains the whole error."""
    if got.dim() >= 2 and got.shape[-1] == got.shape[-2] and _explains(got.mT, ref, errors, gates):
        return "This is the transposed result."
    if got.dim() >= 2 and _explains(got.reshape(ref.mT.shape).mT, ref, errors, gates):
        return "These are the right numbers in the order of the transposed result: a reshape is no transpose."
    factor = _factor(got, ref, errors, gates)
    if factor is not None:
        return factor
    if got.is_complex():
        if _explains(got.conj(), ref, errors, gates):
            return "This is the complex conjugate of the right result."
        return ""
    if _is_reordered(got, ref, errors, gates):
        return "These are the right numbers in another order: look at the indices."
    if got.numel() > 1:
        offset = float((got.double() - ref.double()).mean())
        if offset and _explains(got, ref + offset, errors, gates):
            return f"Each element is off by the same {offset:+.4g}."
    return ""


def _is_reordered(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: Gates) -> bool:
    """True if a permutation explains the elements that differ.

    Sorting alone proves nothing: of many small errors, or of a few, it leaves values that agree. The elements that are
    off must be far off, and nearly all of their error must be gone when both sides are sorted.
    """
    off = errors.relative > gates.largest
    if not int(off.sum()) > 1 or got.numel() > _MOST:
        return False
    wrong, right = got[off].double(), ref[off].double()
    apart = (wrong - right).abs()
    if float(apart.norm()) <= _NONSENSE * float(right.norm()):
        return False
    left, wanted = got.flatten().sort().values, ref.flatten().sort().values
    remains = float((left.double() - wanted.double()).abs().sum())
    return remains <= _LEFT * float(apart.sum()) and errors_of(left, wanted).within(gates)


def _factor(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: Gates) -> str | None:
    """Words, where the result is a constant times the right one. One element says nothing about that."""
    finite = ref.isfinite() & got.isfinite()
    if int(finite.sum()) < 2 or got.is_complex():
        return None
    wide, right = got.double()[finite], ref.double()[finite]
    peak = right.abs().max()
    if not float(peak):
        return None
    right, wide = right / peak, wide / peak
    factor = float((wide * right).sum() / right.square().sum())
    if not factor or not _explains(got, ref * factor, errors, gates):
        return None
    if abs(factor + 1) < 1e-3:
        return "The sign is turned: this is minus the right result."
    return f"Each element is {_number(factor)} times the right one: a factor is missing, or one too many."


def _number(factor: float) -> str:
    """`3`, `1/3`, `0.7071`."""
    if round(factor) and abs(factor - round(factor)) < 1e-3 * abs(factor):
        return f"{round(factor):,}"
    inverse = 1 / factor
    if round(inverse) and abs(inverse - round(inverse)) < 1e-3 * abs(inverse):
        return f"{'-' if inverse < 0 else ''}1/{abs(round(inverse)):,}"
    return f"{factor:.4g}"


def _by_size(errors: Errors, dtype: torch.dtype, gates: Gates) -> str:
    """Say how large the error is and how it is spread."""
    relative = errors.relative
    off = int((relative > gates.largest).sum())
    if 0 < off <= _FEW * relative.numel() and float(relative.median()) <= gates.frobenius:
        return "All the other elements are right: look for what is special about these places."
    size = errors.frobenius
    figure = f"relative error {size:.1e}"
    if size > _NONSENSE:
        return f"{figure}: far more than any rounding gives. Compare each step with what the task asks for."
    # Rounding is everywhere but in zeros: an error that only some elements have is none.
    is_spread = float((relative > size / 10).double().mean()) >= _MANY
    if is_spread and (inside := _precision_of(size, dtype)):
        return f"{figure}: an error as large as that of {inside} somewhere inside."
    return f"{figure}: the values are nearly right. Compare each step with the same step in float64 on the CPU."


def _precision_of(size: float, dtype: torch.dtype) -> str:
    """The precision whose rounding gives an error of this size; empty where the tiers do not single one out."""
    precise = dtype in (torch.float64, torch.complex128)
    single = dtype in (torch.float32, torch.complex64)
    if precise and 5e-10 < size < 5e-6:
        return "float32"
    if (precise or single) and 5e-5 < size < 1e-3:
        return _HALF
    if dtype is not torch.bfloat16 and 1e-3 <= size < 1e-2:
        return "bfloat16"
    return ""


def _explains(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: Gates) -> bool:
    """True if the two agree, and what is left of the original `errors` is next to nothing."""
    left = errors_of(got, ref)
    return left.within(gates) and left.frobenius <= _LEFT * errors.frobenius

"""What a wrong result probably comes from, in words: by its shape, by a factor, by the size of the error."""

from __future__ import annotations

import torch

from gpututor.checks.parity_gates import Errors, Gates, errors_of

_MOST = 1 << 20
"""Elements up to which a result is sorted to find its cause."""
_FEW = 0.05
_HALF = "TF32 or float16"
_NONSENSE = 0.1


def cause_of(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: Gates, dtype: torch.dtype) -> str:
    """Advice for a floating `got` that is not `ref` (of the same shape) within the `gates` of `dtype`."""
    if bool(errors.strange.any()):
        return _strange_cause(got, ref, errors.strange)
    if got.numel() and not bool(got.any()):
        return "The result is all zeros: was it ever written?"
    return _by_pattern(got, ref, gates) or _by_size(errors, dtype, gates)


def _strange_cause(got: torch.Tensor, ref: torch.Tensor, strange: torch.Tensor) -> str:
    if bool((strange & got.isnan()).any()):
        return "NaN comes from 0/0, inf - inf, the root or log of a negative number, or memory that was never written."
    if bool((strange & got.isinf()).any()):
        limit = "; float16 ends at 65,504" if got.dtype is torch.float16 else ""
        return f"inf comes from a division by zero, or from a number that is too large for a dtype inside{limit}."
    return "Where the reference has inf or nan, so must the result."


def _by_pattern(got: torch.Tensor, ref: torch.Tensor, gates: Gates) -> str:
    """The right numbers, but turned, scaled, shifted or out of order."""
    if got.dim() >= 2 and got.shape[-1] == got.shape[-2] and _agree(got.mT, ref, gates):
        return "This is the transposed result."
    if got.dim() >= 2 and _agree(got.reshape(ref.mT.shape).mT, ref, gates):
        return "These are the right numbers in the order of the transposed result: a reshape is no transpose."
    factor = _factor(got, ref, gates)
    if factor is not None:
        return factor
    if got.is_complex():
        if _agree(got.conj(), ref, gates):
            return "This is the complex conjugate of the right result."
        return ""
    if 1 < got.numel() <= _MOST and _agree(got.flatten().sort().values, ref.flatten().sort().values, gates):
        return "These are the right numbers in another order: look at the indices."
    if got.numel() > 1:
        offset = float((got.double() - ref.double()).mean())
        if offset and _agree(got, ref + offset, gates):
            return f"Each element is off by the same {offset:+.4g}."
    return ""


def _factor(got: torch.Tensor, ref: torch.Tensor, gates: Gates) -> str | None:
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
    if not factor or not _agree(got, ref * factor, gates):
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
    off = int((errors.relative > gates.largest).sum())
    if 0 < off <= _FEW * errors.relative.numel() and float(errors.relative.median()) <= gates.frobenius:
        return "All the other elements are right: look at the edges, the last block and the indices."
    size = errors.frobenius
    figure = f"relative error {size:.1e}"
    if size > _NONSENSE:
        return "An error of this size means another computation: look at the operation, its order and its indices."
    precise = dtype in (torch.float64, torch.complex128)
    single = dtype in (torch.float32, torch.complex64)
    if precise and 5e-10 < size < 5e-6:
        return f"{figure}: this looks like float32 somewhere inside."
    if (precise or single) and 5e-5 < size < 1e-3:
        return f"{figure}: this looks like {_HALF} somewhere inside."
    if dtype is not torch.bfloat16 and 1e-3 <= size < 1e-2:
        return f"{figure}: this looks like bfloat16 somewhere inside."
    return f"{figure}: the values are nearly right. Look for a step in a lower precision, or a part left out."


def _agree(got: torch.Tensor, ref: torch.Tensor, gates: Gates) -> bool:
    return errors_of(got, ref).within(gates)

"""Parity: the result has the values of a float64 reference on the CPU, as closely as its dtype allows.

Advice names a cause only if the wrong values prove it: an order, a factor or an offset. The size of an error alone
proves no cause, so advice only compares it with the error of a lower precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy
import torch

from gpututor.checks.model import Applies, Call, Check, Finding, Reference, Run, in_each_call, run_reference
from gpututor.checks.structure import describe
from gpututor.checks.tolerances import TIERS, WIDEST, Errors, Tolerance, ToleranceGates, errors_of, gates_for_dtype
from gpututor.checks.trees import leaves_by_path, map_tensors, part_name, to_tree
from gpututor.errors import CourseError
from gpututor.protocol.values import ObservedTensor

WHY = "A fast wrong result is worthless: the values must agree with the CPU's, as closely as their dtype allows."
_MOST_SORTED = 1 << 20
"""Elements up to which a result is sorted to find a cause."""
_NEARBY = 8
"""Runs of the reference with inputs that differ by a rounding error."""
_FEW = 0.05
_MANY = 0.25
_NONSENSE = 0.1
_REMAINING = 0.1
"""Share of the error that may remain if a cause explains all of it."""


def diagnose_error(
    got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: ToleranceGates, dtype: torch.dtype
) -> str:
    """Return advice for a floating `got` that exceeds the `gates` of `dtype` around `ref`, of the same shape."""
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
        return f"inf comes from a division by zero, or from an intermediate value too large for its dtype{limit}."
    return "The result must have inf and nan exactly where the reference has them."


def _by_pattern(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: ToleranceGates) -> str:
    """Name an order, a factor or an offset that explains the whole error."""
    if got.dim() >= 2 and got.shape[-1] == got.shape[-2] and _explains(got.mT, ref, errors, gates):
        return "This is the transposed result."
    if got.dim() >= 2 and _explains(got.reshape(ref.mT.shape).mT, ref, errors, gates):
        return "These are the right numbers in the order of the transposed result: a reshape does not transpose."
    if factor := _by_factor(got, ref, errors, gates):
        return factor
    if got.is_complex():
        is_conjugate = _explains(got.conj(), ref, errors, gates)
        return "This is the complex conjugate of the right result." if is_conjugate else ""
    if _is_reordered(got, ref, errors, gates):
        return "These are the right numbers in another order: look at the indices."
    if got.numel() > 1:
        offset = float((got.double() - ref.double()).mean())
        if offset and _explains(got, ref + offset, errors, gates):
            return f"Each element is off by the same {offset:+.4g}."
    return ""


def _is_reordered(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: ToleranceGates) -> bool:
    """Return True if a permutation explains the elements that differ.

    Sorting alone proves nothing: it also hides many small errors, or a few. The elements that are off must be far off,
    and sorting both sides must remove nearly all of their error.
    """
    off = errors.relative > gates.largest
    if not int(off.sum()) > 1 or got.numel() > _MOST_SORTED:
        return False
    wrong, right = got[off].double(), ref[off].double()
    apart = (wrong - right).abs()
    if float(apart.norm()) <= _NONSENSE * float(right.norm()):
        return False
    left, wanted = got.flatten().sort().values, ref.flatten().sort().values
    remains = float((left.double() - wanted.double()).abs().sum())
    return remains <= _REMAINING * float(apart.sum()) and errors_of(left, wanted).within(gates)


def _by_factor(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: ToleranceGates) -> str:
    """Describe the constant factor of the right result; empty if there is none, or only one element is wrong."""
    finite = ref.isfinite() & got.isfinite()
    if int(finite.sum()) < 2 or got.is_complex():
        return ""
    wide, right = got.double()[finite], ref.double()[finite]
    peak = right.abs().max()
    if not float(peak):
        return ""
    right, wide = right / peak, wide / peak
    factor = float((wide * right).sum() / right.square().sum())
    if not factor or not _explains(got, ref * factor, errors, gates):
        return ""
    if abs(factor + 1) < 1e-3:
        return "The sign is wrong: this is the negative of the right result."
    times = _factor_text(factor)
    return f"Each element is {times} times the right value: a factor is missing, or there is one too many."


def _factor_text(factor: float) -> str:
    """Return `3`, `1/3` or `0.7071`."""
    for value, prefix in ((factor, ""), (1 / factor, "1/")):
        if round(value) and abs(value - round(value)) < 1e-3 * abs(value):
            return f"{'-' if value < 0 else ''}{prefix}{abs(round(value)):,}"
    return f"{factor:.4g}"


def _by_size(errors: Errors, dtype: torch.dtype, gates: ToleranceGates) -> str:
    """Describe the size of the error and how it is spread."""
    relative = errors.relative
    off = int((relative > gates.largest).sum())
    if 0 < off <= _FEW * relative.numel() and float(relative.median()) <= gates.frobenius:
        return "All the other elements are right: look for what is special about these places."
    size = errors.frobenius
    figure = f"relative error {size:.1e}"
    if size > _NONSENSE:
        return f"{figure}: far more than rounding can cause. Compare each step with the task."
    # Rounding affects all elements but zeros: an error of a few elements has another cause.
    is_spread = float((relative > size / 10).double().mean()) >= _MANY
    if is_spread and (inside := _precision_of(size, dtype)):
        return f"{figure}: an error as large as that of {inside} in an intermediate step."
    return f"{figure}: the values are nearly right. Compare each step with the same step in float64 on the CPU."


def _precision_of(size: float, dtype: torch.dtype) -> str:
    """Return the precision whose rounding gives an error of this size; empty if the tiers do not single one out."""
    precise = dtype in (torch.float64, torch.complex128)
    single = dtype in (torch.float32, torch.complex64)
    if precise and 5e-10 < size < 5e-6:
        return "float32"
    if (precise or single) and 5e-5 < size < 1e-3:
        return "TF32 or float16"
    if dtype is not torch.bfloat16 and 1e-3 <= size < 1e-2:
        return "bfloat16"
    return ""


def _explains(got: torch.Tensor, ref: torch.Tensor, errors: Errors, gates: ToleranceGates) -> bool:
    """Return True if the two agree, and almost nothing of the original `errors` remains."""
    left = errors_of(got, ref)
    return left.within(gates) and left.frobenius <= _REMAINING * errors.frobenius


@dataclass(frozen=True)
class Disagreement:
    """Difference between one tensor and its reference."""

    expected: str
    got: str
    advice: str

    @property
    def cause_alone(self) -> str:
        """The advice without the figure, which `got` contains already."""
        figure, colon, cause = self.advice.partition(": ")
        return cause[0].upper() + cause[1:] if colon and figure.startswith("relative error") else self.advice


def parity(
    reference: Reference,
    *,
    times: float = 1.0,
    inside: torch.dtype | None = None,
    name: str = "parity",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Check that every tensor of the result agrees with the reference's, called in float64.

    The gates are those of the result's dtype. Three times the reference's own error in that dtype on the CPU replaces
    them if it is larger, also for inputs that differ by a rounding error. `inside` is a lower precision that may be
    used inside, such as `torch.float16` (also for TF32). `times` widens the gates.
    """
    check_widening("parity", times, inside)
    tolerance = Tolerance(reference, times, inside)

    def find(run: Run, call: Call) -> Finding | None:
        wanted = leaves(run_reference(reference, call.drawn, in_float64=True))
        if not wanted:
            raise CourseError(f"{name}: the reference returns no tensors", "Compare plain values with `value`.")
        got = leaves(call.output)
        if wanted.keys() != got.keys():
            return Finding(describe(wanted), describe(call.output), run.line_of(call))
        own = OwnDtype(tolerance, call.drawn)
        for path, ref in wanted.items():
            off = compare_with_reference(got[path], ref, times, own=own, path=path)
            if off is not None:
                # The author's advice replaces the finding's advice, so the cause goes into the sentence.
                cause = f". {off.cause_alone}" if advice and off.advice else ""
                words = f"{part_name(path, call.output)}: {off.got}{run.which(call)}{cause}"
                return Finding(off.expected, words, run.line_of(call), advice=off.advice)
        return None

    check = Check(
        name, lambda _: "The values agree with the CPU's", in_each_call(find), ("structure",), why, advice, on
    )
    return replace(check, results_only=True, tolerance=tolerance, kind="values")


def check_widening(word: str, times: float, inside: torch.dtype | None) -> None:
    if not 0 < times < math.inf or (inside is not None and inside not in TIERS):
        raise CourseError(f"{word}: times={times}, inside={inside}", "Use times above 0, and a floating dtype.")


class OwnDtype:
    """The reference's results in the dtype of the inputs, computed on first use."""

    def __init__(self, tolerance: Tolerance, drawn: dict[str, Any]) -> None:
        self.tolerance = tolerance
        self._drawn = drawn

    def dtype(self, path: str) -> torch.dtype | None:
        """Return the dtype at `path`; None if the CPU cannot compute it in that dtype."""
        result = self._results.get(path)
        return None if result is None else result.dtype

    def errors(self, path: str, ref: torch.Tensor) -> Errors | None:
        """Return the errors relative to `ref`; None if the two are not comparable."""
        result = self._results.get(path)
        return None if result is None else _errors_of_reference(result, ref)

    def errors_nearby(self, path: str, ref: torch.Tensor) -> Errors | None:
        """Return the largest errors for inputs that differ by a rounding error; None without comparable results.

        An honest result may be on the other side of a jump, such as that of ReLU's gradient at 0.
        """
        errors = [_errors_of_reference(results[path], ref) for results in self._results_nearby if path in results]
        known = [error for error in errors if error is not None and math.isfinite(error.largest)]
        if not known:
            return None
        frobenius, largest = (max(getattr(error, name) for error in known) for name in ("frobenius", "largest"))
        return replace(known[0], frobenius=frobenius, largest=largest)

    @cached_property
    def _results(self) -> dict[str, torch.Tensor]:
        return self._run(self._drawn)

    @cached_property
    def _results_nearby(self) -> list[dict[str, torch.Tensor]]:
        chance = torch.Generator().manual_seed(0)
        nearby = (map_tensors(self._drawn, lambda tensor: rounded(tensor, chance)) for _ in range(_NEARBY))
        return [self._run(drawn) for drawn in nearby]

    def _run(self, drawn: dict[str, Any]) -> dict[str, torch.Tensor]:
        try:
            return leaves(run_reference(self.tolerance.reference, drawn, in_float64=False))
        except CourseError:
            return {}  # such as an operator that the CPU lacks in half precision: the tiers apply


def _errors_of_reference(result: torch.Tensor, ref: torch.Tensor) -> Errors | None:
    return errors_of(result, ref) if result.dtype in TIERS and result.shape == ref.shape else None


def rounded(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Return a floating tensor whose elements are changed by at most one unit in the last place; zeros stay."""
    if not tensor.is_floating_point():
        return tensor
    steps = torch.randint(-1, 2, tensor.shape, generator=chance).to(tensor.dtype)
    return (tensor.detach() * (1 + steps * torch.finfo(tensor.dtype).eps)).requires_grad_(tensor.requires_grad)


def compare_with_reference(
    got: torch.Tensor, ref: torch.Tensor, times: float = 1.0, *, own: OwnDtype | None = None, path: str = ""
) -> Disagreement | None:
    """Compare `got` (any dtype) with `ref` (float64, or exact) without broadcasting; None if they agree."""
    if got.shape != ref.shape:
        return Disagreement(f"shape {tuple(ref.shape)}", f"shape {tuple(got.shape)}", "")
    if (got.dtype in TIERS) != (ref.dtype in TIERS) or (ref.is_complex() and not got.is_complex()):
        kind = "complex" if ref.is_complex() else "floating-point" if ref.dtype in TIERS else "whole or boolean"
        return Disagreement(f"{kind} values", f"values of {got.dtype}", "Look at the dtypes of each step.")
    if got.dtype not in TIERS:
        wrong = got != ref
        return _listed(got, ref, wrong, "exactly equal values", "", "") if bool(wrong.any()) else None
    errors = errors_of(got, ref)
    inside = own.tolerance.inside if own is not None else None
    # A result in a lower precision than the reference's is judged by the reference's dtype.
    lower = own is not None and TIERS[got.dtype].frobenius > TIERS[torch.float32].frobenius
    others = [own.dtype(path)] if own is not None and lower else []
    dtype = min((known for known in (got.dtype, *others) if known in TIERS), key=lambda known: TIERS[known].frobenius)
    gates = gates_for_dtype(dtype, None, times, inside)
    if not errors.within(gates) and own is not None:
        gates = gates_for_dtype(dtype, own.errors(path, ref), times, inside)
        if not errors.within(gates) and errors.within(WIDEST.widened(times)):
            gates = gates.or_wider(gates_for_dtype(dtype, own.errors_nearby(path, ref), times, inside))
    if errors.within(gates):
        return None
    advice = diagnose_error(got, ref, errors, gates, dtype)
    if bool(errors.strange.any()):
        return _listed(got, ref, errors.strange, "inf and nan only where the reference has them", "", advice)
    wanted = f"a relative error of at most {gates.frobenius:.0e} for {dtype}"
    worst = errors.relative > max(gates.largest, errors.largest / 10)
    if not bool(worst.any()):  # no element alone is far off, but all together are; or the reference is all zeros
        worst = errors.relative > (errors.largest / 10 if math.isfinite(errors.largest) else 0.0)
    if errors.frobenius <= gates.frobenius:
        wanted = f"no error above {gates.largest:.0e} of its row's size for {dtype}"
    figure = f"relative error {errors.frobenius:.1e}; " if math.isfinite(errors.frobenius) else ""
    return _listed(got, ref, worst, wanted, figure, advice)


def _listed(
    got: torch.Tensor, ref: torch.Tensor, wrong: torch.Tensor, wanted: str, prefix: str, advice: str
) -> Disagreement:
    """List the first wrong elements with index, value and expected value."""
    places = wrong.nonzero()[:3].tolist()
    shown = [f"at {place} {_number(got[tuple(place)])}, not {_number(ref[tuple(place)])}" for place in places]
    total = int(wrong.sum())
    off = f"{total:,} of {wrong.numel():,} elements are off" if wrong.numel() > 1 else "the only element"
    return Disagreement(wanted, f"{prefix}{'; '.join(shown)} ({off})", advice)


def _number(element: torch.Tensor) -> str:
    return f"{element.item():.6g}" if element.dtype is not torch.bool else str(element.item())


def leaves(result: Any) -> dict[str, torch.Tensor]:
    """Return every tensor and array of a result as a CPU tensor by path; modules count as their state dict."""
    tensors: dict[str, torch.Tensor] = {}
    for path, leaf in leaves_by_path(to_tree(result)).items():
        match leaf:
            case ObservedTensor():
                tensors[path] = leaf.values
            case torch.Tensor():
                tensors[path] = leaf.detach()
            case numpy.ndarray():
                tensors[path] = torch.from_numpy(leaf)
    return tensors

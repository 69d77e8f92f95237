"""The record of each operator overload: its facts, looked up once and stored for the life of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.operator_facts import (
    NO_COST,
    OperatorFacts,
    facts_of,
    kind_of,
    short_name,
    sized_by_numbers,
    tables,
)

_aten = torch.ops.aten
Waits = Callable[..., bool]
Rule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
RULES: dict[Any, Rule] = {}
"""Functions for operators or namespaces that need more than a call of the CPU's kernel; see `fill_tables`."""
CALLS: dict[Any, Callable[..., Any]] = {}
"""Functions that return what CUDA's kernels return, for operators whose CPU kernels differ; see `fill_tables`."""


def _growth(short: str, pointwise: bool) -> str:
    """Return the name of the bound on a result's size; see `shape_only.could_grow`."""
    if sized_by_numbers(short):
        return "always"
    if short.startswith("_foreach"):
        return "same"
    return "pointwise" if pointwise else "product"


_NONE: Mapping[str, Any] = {}


def _mask_among(indices: Any) -> bool:
    return any(isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices or ())


def _index_put_waits(args: Sequence[Any], kwargs: Mapping[str, Any] = _NONE) -> bool:
    """Return True unless a single mask with a single value on the CPU becomes `masked_fill_` (IndexingUtils.h)."""
    indices, values = args[1], args[2]
    if not _mask_among(indices):
        return False
    accumulates = bool(args[3]) if len(args) > 3 else False
    single_mask = len([index for index in indices if index is not None]) == 1
    return accumulates or not single_mask or values.numel() != 1 or values.device.type != "cpu"


def _given(args: Sequence[Any], kwargs: Mapping[str, Any], position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def _isin_waits(args: Sequence[Any], kwargs: Mapping[str, Any] = _NONE) -> bool:
    """Return True if there are enough test elements that CUDA sorts them (TensorCompare.cpp)."""
    elements, tests = args[:2]
    if not isinstance(elements, torch.Tensor) or not isinstance(tests, torch.Tensor):
        return False
    sorts = tests.numel() >= int(10.0 * elements.numel() ** 0.145)
    return sorts and not kwargs.get("assume_unique", False)


WAITS: dict[str, Waits] = {
    "always": lambda args, kwargs=_NONE: True,
    "lengths": lambda args, kwargs=_NONE: kwargs.get("output_size") is None,
    "mask": lambda args, kwargs=_NONE: _mask_among(args[1]),
    "put": _index_put_waits,
    "deviation": lambda args, kwargs=_NONE: len(args) > 1 and isinstance(args[1], torch.Tensor),
    # Unless several samples are drawn with replacement (Distributions.cpp).
    "draw": lambda args, kwargs=_NONE: args[1] == 1 or not _given(args, kwargs, 2, "replacement", False),
    # If the values themselves are the bounds (SummaryOps.cu).
    "histc": lambda args, kwargs=_NONE: bool(_given(args, kwargs, 2, "min", 0) == _given(args, kwargs, 3, "max", 0)),
    "isin": _isin_waits,
    "checked": lambda args, kwargs=_NONE: kwargs.get("lengths") is not None and not kwargs.get("unsafe", False),
}
"""Functions by the fact `waits`. Each returns True if the host waits in a call with these arguments."""
_INDICES: frozenset[int | str] = frozenset((1, "indices"))


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """The CUDA kernel of an operator, with the dtypes that only the CPU supports."""

    message: str
    """CUDA's message for a dtype that it lacks."""
    error: type[RuntimeError]
    lacks: frozenset[torch.dtype]
    reductions: frozenset[str]
    """The values of `reduce` for which the dtypes are missing; empty for all values."""
    below_capability: tuple[int, ...] | None
    """The first compute capability that supports the dtypes; None if no GPU does."""
    skips_empty: bool
    """True if it returns for tensors without elements before it checks the dtype."""

    def refusal(self, op: Operator, dtype_name: str) -> RuntimeError:
        """Return CUDA's error for a dtype, given C++'s name for it."""
        return self.error(self.message.format(dtype=dtype_name, operator=op.func.name()))


_NOT_IN_CUDA = "Could not run"
_NO_SUCH_KERNEL = (
    " This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom "
    "build process (if using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
    "https://fburl.com/ptmfixes for possible resolutions."
)


def cuda_kernel(facts: OperatorFacts) -> CudaKernel | None:
    """Return the CUDA kernel of an operator; None if its dtypes and messages are the same as on the CPU."""
    if not facts.kernel and not facts.refusal:
        return None
    refusal = facts.refusal + (_NO_SUCH_KERNEL if facts.refusal.startswith(_NOT_IN_CUDA) else "")
    by_name = not refusal or refusal.startswith(_NOT_IN_CUDA)
    return CudaKernel(
        refusal or f"\"{facts.kernel}\" not implemented for '{{dtype}}'",
        NotImplementedError if by_name else RuntimeError,
        frozenset(getattr(torch, name) for name in facts.lacks),
        frozenset(facts.reductions),
        facts.below_capability or None,
        facts.skips_empty,
    )


_FACTORS = {"mm": ("self", "mat2"), "addmm": ("mat1", "mat2"), "bmm": ("self", "mat2"), "baddbmm": ("batch1", "batch2")}
"""The parameters that are multiplied, by operator."""
_HALVES = (torch.float16, torch.bfloat16)


def _wider_products() -> dict[Any, Callable[..., Any]]:
    """Return functions that compute each overload with an `out_dtype`, such as `torch.mm(a, b, out_dtype=float32)`.

    Only CUDA has these overloads. CUDA's kernels accumulate in float32 and do not round the result. Here the CPU
    computes in float32, in which products of two halves are exact. The rules for dtypes and their messages come from
    aten/src/ATen/native/cuda/Blas.cpp. Autograd has no formula for these overloads: `backward` raises PyTorch's error.
    """
    calls = {}
    for name in _FACTORS:
        packet = getattr(_aten, name)
        for overload in {"dtype", "dtype_out"} & set(packet.overloads()):
            func = getattr(packet, overload)
            calls[func] = _in_out_dtype(func, packet)
    return calls


def _in_out_dtype(func: Any, packet: Any) -> Callable[..., Any]:
    names = [argument.name for argument in func._schema.arguments if not argument.kwarg_only]
    factors = _FACTORS[packet.__name__]

    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        dtype, out = given.pop("out_dtype"), given.pop("out", None)
        _check_factors(given, factors, dtype, out)
        result = packet(
            **{name: value.to(dtype) if isinstance(value, torch.Tensor) else value for name, value in given.items()}
        )
        return result if out is None else out.resize_(result.shape).copy_(result)

    return call


def _fused_conversions() -> dict[Any, Callable[..., Any]]:
    """Return functions for the float32 softmax of float16, and for its gradient: only CUDA's kernels convert the dtype.

    aten/src/ATen/native/SoftMax.cpp: `half_to_float`.
    """

    def forward(func: Any) -> Callable[..., Any]:
        return lambda tensor, dim, widens: func._op(tensor.float() if widens else tensor, dim, False)

    def backward(func: Any) -> Callable[..., Any]:
        return lambda grad, out, dim, dtype: func._op(grad, out, dim, grad.dtype).to(dtype)

    return {
        **{func: forward(func) for func in (_aten._softmax.default, _aten._log_softmax.default)},
        **{
            func: backward(func)
            for func in (_aten._softmax_backward_data.default, _aten._log_softmax_backward_data.default)
        },
    }


def _check_factors(
    given: dict[str, Any], factors: tuple[str, str], dtype: torch.dtype, out: torch.Tensor | None
) -> None:
    """Raise CUDA's error for a combination of dtypes that it does not support."""
    left, right = (given[name] for name in factors)
    if out is not None and out.dtype is not dtype:
        raise RuntimeError("out_dtype must be the same as the dtype of the provided out tensor")
    if left.dtype is not right.dtype:
        raise RuntimeError("input dtypes must be the same")
    if dtype is not left.dtype and not (dtype is torch.float32 and left.dtype in _HALVES):
        raise RuntimeError("out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs")
    if "self" not in factors and given["self"].dtype not in (dtype, left.dtype):
        raise RuntimeError(f"self dtype must match either out_dtype or {factors[0]} dtype")


# torch's Python functions parse arguments faster than overloads do: this saves a third of a small operator's time.
_Tensor = torch.Tensor
# fmt: off
_QUICK: dict[Any, Any] = {
    _aten.detach.default: _Tensor.detach, _aten.t.default: _Tensor.t, _aten.view.default: _Tensor.view,
    _aten.transpose.int: _Tensor.transpose, _aten.unsqueeze.default: _Tensor.unsqueeze,
    _aten.expand.default: _Tensor.expand, _aten.permute.default: _Tensor.permute,
    _aten.add.Tensor: torch.add, _aten.sub.Tensor: torch.sub, _aten.mul.Tensor: torch.mul, _aten.div.Tensor: torch.div,
    _aten.mm.default: torch.mm, _aten.bmm.default: torch.bmm, _aten.addmm.default: torch.addmm,
    _aten.relu.default: torch.relu, _aten.sigmoid.default: torch.sigmoid, _aten.tanh.default: torch.tanh,
    _aten.exp.default: torch.exp, _aten.sqrt.default: torch.sqrt, _aten.neg.default: torch.neg,
    _aten.add_.Tensor: _Tensor.add_, _aten.mul_.Tensor: _Tensor.mul_, _aten.zero_.default: _Tensor.zero_,
    _aten._foreach_add_.Scalar: torch._foreach_add_, _aten._foreach_add_.Tensor: torch._foreach_add_,
    _aten._foreach_mul_.Scalar: torch._foreach_mul_, _aten._foreach_lerp_.Scalar: torch._foreach_lerp_,
    _aten._foreach_addcmul_.Scalar: torch._foreach_addcmul_, _aten._foreach_sqrt.default: torch._foreach_sqrt,
    _aten._foreach_div_.ScalarList: torch._foreach_div_, _aten._foreach_addcdiv_.ScalarList: torch._foreach_addcdiv_,
}
# fmt: on
_COMPOSED = {**_wider_products(), **_fused_conversions()}
"""Functions for operators that only CUDA has: the CPU computes them with other operators."""
_MULTIPLYING = frozenset(
    {"matmul", "convolution", "convolution_backward", "attention", "attention_backward", "contraction"}
)
# fmt: off
TORCHS_OWN = frozenset({
    "_", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "_quantized", "_test", "aten", "c10d",
    "debug_mode_ops", "debugprims", "export", "inductor", "inductor_prims", "mkl", "mkldnn", "mkldnn_prepacked",
    "onednn", "prim", "prims", "profiler", "quantization", "quantized", "rngprims", "sparse", "static_runtime",
    "symm_mem",
})
# fmt: on
"""The namespaces of PyTorch's own operators."""
_COLLECTIVES = frozenset({"c10d", "_c10d_functional"})


def _collective(func: Any) -> Callable[..., Any]:
    """Return a collective that runs without modes: gloo's threads could not free a mode while Python exits."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch_private.without_function_modes():
            return func._op(*args, **kwargs)

    return call


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def shortest_call(func: Any) -> Callable[..., Any]:
    """Return the function that computes an overload on the CPU by the shortest path from Python."""
    call: Callable[..., Any] = _QUICK.get(func) or _COMPOSED.get(func, func._op)
    return call


class Operator:
    """An operator overload: its effect on its arguments, and how it is recorded."""

    # fmt: off
    __slots__ = (
        "attends", "call", "composite", "convolves", "cuda_kernel", "custom", "facts", "func", "growth", "hidden_view",
        "host_call", "host_places", "is_fresh", "is_kernel", "is_plain", "is_view", "made_of_others", "may_resize",
        "multiplies", "name", "nondeterministic", "out_names", "parameters", "puts_at_indices", "random",
        "reads_at_indices", "recurs", "returns_first", "returns_nothing", "rule", "scans", "takes_generator", "waits",
        "writes", "written_places",
    )
    # fmt: on

    def __init__(self, func: Any) -> None:
        schema = func._schema
        short = func.overloadpacket.__name__
        writes = [(position, value) for position, value in enumerate(schema.arguments) if _is_written(value)]
        is_view = any(value.alias_info is not None and not value.alias_info.is_write for value in schema.returns)
        kind = kind_of(schema.name)
        self.func = func
        facts = self.facts = facts_of(short)
        call = shortest_call(func)
        self.host_call = _collective(func) if func.namespace in _COLLECTIVES else call
        """The operator by its shortest path from Python."""
        self.call = CALLS.get(func, self.host_call)
        """The operator as a GPU runs it, computed on the CPU."""
        self.rule = RULES.get(func) or RULES.get(func.namespace)
        self.name = f"aten::{facts.cuda_name}" if facts.cuda_name and func.namespace == "aten" else schema.name
        self.multiplies = kind in _MULTIPLYING
        """True if it multiplies matrices in some form: its FLOPs count, and TF32 matters."""
        self.attends = kind in ("attention", "attention_backward")
        """True for fused attention, whose price depends on `is_causal`."""
        self.scans = kind == "scan"
        """True if its price depends on the dimension that it scans."""
        self.convolves = kind in ("convolution", "convolution_backward")
        """True if its price depends on the layout of its first argument."""
        self.parameters = [argument.name for argument in schema.arguments]
        self.recurs = kind == "recurrent" and "hidden_size" in self.parameters
        """True for recurrent layers of cuDNN, priced by numbers among the arguments."""
        self.cuda_kernel = cuda_kernel(facts) if func.namespace == "aten" else None
        """CUDA's kernel, if it lacks dtypes; None for most."""
        self.hidden_view = facts.hidden_view
        self.is_plain = not writes and not is_view and not self.hidden_view
        """True if its results are new tensors."""
        returned = [str(value.type) for value in schema.returns]
        one_tensor = returned == ["Tensor"]
        self.is_fresh = self.is_plain and (one_tensor or returned == ["List[Tensor]"])
        """True if it returns a new tensor, or a list of new tensors."""
        self.is_view = one_tensor and is_view and not writes and str(schema.arguments[0].type) == "Tensor"
        """True if its result is a view of its first argument."""
        self.writes = [(position, argument.name) for position, argument in writes]
        """Positions and names of the arguments that it writes to."""
        written = self.writes if torch.Tag.pointwise in func.tags else []
        self.written_places = frozenset(place for pair in written for place in pair)
        """Positions and names of written arguments, which must not be 0-d CPU tensors (TensorIterator.cpp)."""
        self.returns_nothing = not schema.returns
        self.returns_first = (
            one_tensor
            and [position for position, _ in writes] == [0]
            and schema.returns[0].alias_info is not None
            and not self.hidden_view
        )
        """True if it writes to its first argument, and returns it."""
        self.out_names = [argument.name for _, argument in writes if argument.kwarg_only]
        self.may_resize = bool(self.out_names)
        self.is_kernel = not is_view and kind != NO_COST and func.namespace != "profiler"
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.nondeterministic = func.namespace == "aten" and short_name(schema.name) in tables()["nondeterministic"]
        """True if some of its calls have no deterministic CUDA kernel; see `operators.determinism`."""
        self.takes_generator = any(argument.name == "generator" for argument in schema.arguments)
        self.reads_at_indices = facts.indices == "read"
        self.puts_at_indices = facts.indices == "put"
        self.host_places = _INDICES if self.reads_at_indices or self.puts_at_indices else frozenset()
        """Positions and names of arguments that may be CPU tensors next to device tensors."""
        self.growth = _growth(short, torch.Tag.pointwise in func.tags) if self.is_kernel and not writes else ""
        """The bound on its results' size, as `_growth` names it; empty for an operator that makes no tensor."""
        waits = facts.waits != "lengths" or func._overloadname == "Tensor"
        self.waits = WAITS.get(facts.waits) if waits else None
        """Function that returns True if the host waits in a call, given its arguments and keywords; None for most."""
        self.custom = func.namespace not in TORCHS_OWN and self.rule is None
        """True if a library defined it: `custom_operators` runs its body."""
        composed = not facts.own_kernel and func.namespace == "aten"
        self.composite = self.custom or (composed and torch_private.has_composite_kernel(func.name()))
        """True if it calls other operators, each of which is recorded."""
        self.made_of_others = torch_private.explicit_composite(func)
        """Implementation with other operators, if autograd has its own formula for it; None for a kernel."""

    def written_among(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the tensors among the arguments that it writes to."""
        for position, name in self.writes:
            value = args[position] if position < len(args) else kwargs.get(name)
            if type(value) is list or type(value) is tuple:
                yield from value
            elif value is not None:
                yield value

    def argument(self, where: int | str) -> str:
        return where if isinstance(where, str) else str(self.func._schema.arguments[where].name)


OPERATORS: dict[int, Operator] = {}
"""Operators by the overload's id: torch never frees overloads, and hashing an overload is slow."""


def describe(func: Any) -> Operator:
    """Return the record of an overload, made at its first use."""
    operator = OPERATORS[id(func)] = Operator(func)
    return operator


def operator_of(func: Any) -> Operator:
    return OPERATORS.get(id(func)) or describe(func)


def fill_tables(rules: dict[Any, Rule], calls: dict[Any, Callable[..., Any]]) -> None:
    """Fill `RULES` and `CALLS`, and discard the records of all operators: they were made without the tables."""
    RULES.update(rules)
    CALLS.update(calls)
    OPERATORS.clear()


def forget_custom_operators() -> None:
    """Discard the records of operators outside torch: a program may define another operator of the same name."""
    for key in [key for key, operator in OPERATORS.items() if operator.func.namespace not in TORCHS_OWN]:
        del OPERATORS[key]

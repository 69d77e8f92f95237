"""What is known about each operator overload; found out once, kept for the life of the process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.clock.kinds import kind_of
from gpututor.devices.virtual.operators import wider_products
from gpututor.devices.virtual.operators.kernels import kernels

Waits = Callable[[tuple[Any, ...]], bool]
Rule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
RULES: dict[Any, Rule] = {}
"""Operators, or whole namespaces of them, that are not simply run on the CPU; filled by `add_rules`."""

# They give a view or change metadata only, though their schema does not say so; or make memory without touching it.
# fmt: off
_NO_KERNEL = frozenset({
    "_assert_async", "_backward", "_efficientzerotensor", "_fused_sdp_choice", "empty_quantized", "set",
    "_has_compatible_shallow_copy_type", "_is_all_true",
    "_local_scalar_dense", "_nested_tensor_size", "_unsafe_view", "_version", "as_strided_", "can_cast", "dense_dim",
    "detach_", "dim", "empty", "empty_like", "empty_permuted", "empty_strided", "is_coalesced", "is_contiguous",
    "is_non_overlapping_and_dense", "is_pinned", "is_same_size", "is_strides_like_format", "item", "lift",
    "lift_fresh", "new_empty", "new_empty_strided", "numel", "record_stream", "rename", "rename_", "requires_grad_",
    "resize", "resize_", "resize_as", "resize_as_", "result_type", "retain_grad", "set_", "size", "sparse_dim",
    "squeeze_", "stride", "swapaxes_", "swapdims_", "sym_numel", "sym_size", "sym_storage_offset", "sym_stride", "t_",
    "transpose_", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze_",
})
# fmt: on
# fmt: off
_HIDDEN_VIEWS = frozenset({
    "_sparse_bsc_tensor_unsafe", "_sparse_bsr_tensor_unsafe", "_sparse_compressed_tensor_unsafe",
    "_sparse_compressed_tensor_with_dims", "_sparse_coo_tensor_unsafe", "_sparse_coo_tensor_with_dims",
    "_sparse_coo_tensor_with_dims_and_tensors", "_sparse_csc_tensor_unsafe", "_sparse_csr_tensor_unsafe",
    "_unsafe_view", "resize_", "set_", "sparse_compressed_tensor", "sparse_coo_tensor", "unsafe_split",
    "unsafe_split_with_sizes",
})
# fmt: on
# The host waits for a count or a flag that the operator needs, as a factorisation does for `info`: whether it went well
# (native/BatchLinearAlgebra.cpp, and cuSOLVER's iterations in native/cuda/linalg).
# fmt: off
_ALWAYS_WAITS = frozenset({
    "_is_all_true", "_is_any_true", "_linalg_check_errors", "_linalg_eigh",
    "_linalg_eigvals", "_linalg_svd", "_unique", "_unique2", "allclose", "argwhere", "bincount", "cholesky",
    "cholesky_inverse", "equal", "is_nonzero", "linalg_eig", "linalg_lstsq", "linalg_matrix_exp", "linalg_pinv",
    "masked_select", "nonzero", "nonzero_numpy", "unique_consecutive", "unique_dim",
    "unique_dim_consecutive",
})
# fmt: on
_PUTS = frozenset({"index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"})
_READS_AT_INDICES = frozenset({"index", "_unsafe_index"})
# Their CUDA wrappers compare the devices of all tensors; those that iterate over elements let CPU scalars in.
# fmt: off
_CHECKS_SCALARS = frozenset({
    "_embedding_bag", "bmm", "cat", "dot", "embedding", "gather", "index_add", "index_add_", "index_copy",
    "index_copy_", "index_select", "mm", "mv", "native_layer_norm", "nll_loss_forward", "put", "put_", "scatter",
    "scatter_", "scatter_add", "scatter_add_", "stack", "take",
})
# fmt: on
_INDICES: frozenset[int | str] = frozenset((1, "indices"))
# How large a result is comes from a number among the arguments.
_SIZED_BY_NUMBERS = re.compile(
    r"repeat|expand_copy|.*pad(_nd|\d|_sequence)|.*upsample|.*im2col|.*col2im|diag_embed|.*vander|.*unpool|affine_grid"
    r"|multinomial|_?fft_|new_|.*one_hot|.*unfold|.*glu_jvp|.*convolution|histc|bincount|_unsafe_masked_index"
)


def _growth(short: str, pointwise: bool) -> str:
    """How much larger than its inputs a result can be; see `forecast.could_grow`."""
    if _SIZED_BY_NUMBERS.match(short):
        return "always"
    if short.startswith("_foreach"):
        return "same"
    return "pointwise" if pointwise else "product"


def _mask_among(indices: Any) -> bool:
    return any(isinstance(one, torch.Tensor) and one.dtype in (torch.bool, torch.uint8) for one in indices or ())


def _index_waits(args: tuple[Any, ...]) -> bool:
    return _mask_among(args[1])


def _index_put_waits(args: tuple[Any, ...]) -> bool:
    """A single mask with a single value becomes `masked_fill_`, which does not wait (TensorAdvancedIndexing.cpp)."""
    indices, values = args[1], args[2]
    if not _mask_among(indices):
        return False
    accumulates = bool(args[3]) if len(args) > 3 else False
    one_mask = len([one for one in indices if one is not None]) == 1
    return accumulates or not one_mask or values.numel() != 1


def _always(args: tuple[Any, ...]) -> bool:
    return True


def _waits_of(name: str, overload: str) -> Waits | None:
    if name in _ALWAYS_WAITS:
        return _always
    if name in ("index", "_unsafe_index"):
        return _index_waits
    if name in ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"):
        return _index_put_waits
    if name == "repeat_interleave" and overload == "Tensor":
        return _always
    return None


# Where torch's own function reads its arguments faster than the overload does: a third of a small operator's time.
_aten, _Tensor = torch.ops.aten, torch.Tensor
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
_OTHERWISE = wider_products.calls()
"""What the CPU does not have and other operators of it give."""
_CUDA_NAMES = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": "aten::_scaled_dot_product_flash_attention_backward",
}
"""What CUDA calls an operator that has a name of its own on the CPU."""
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
    """A collective that keeps no mode: gloo's threads may let go of it as Python ends, and could not free a mode."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with private.function_modes_aside():
            return func._op(*args, **kwargs)

    return call


class Operator:
    """One overload: what it does to its arguments and how it is recorded."""

    __slots__ = (
        "call",
        "checks_scalars",
        "composite",
        "cuda_kernel",
        "custom",
        "func",
        "growth",
        "hidden_view",
        "host_places",
        "is_fresh",
        "is_kernel",
        "is_plain",
        "is_view",
        "made_of_others",
        "may_resize",
        "multiplies",
        "name",
        "out_names",
        "puts_at_indices",
        "random",
        "reads_at_indices",
        "returns_first",
        "returns_nothing",
        "rule",
        "scans",
        "takes_generator",
        "waits",
        "writes",
        "written_places",
    )

    def __init__(self, func: Any) -> None:
        schema = func._schema
        short = func.overloadpacket.__name__
        writes = [one for one in schema.arguments if one.alias_info is not None and one.alias_info.is_write]
        is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
        aliases = [one.alias_info for one in schema.returns]
        self.func = func
        own = _QUICK.get(func) or _OTHERWISE.get(func, func._op)
        self.call = _collective(func) if func.namespace in _COLLECTIVES else own
        """The operator by its shortest way from Python."""
        self.rule = RULES.get(func) or RULES.get(func.namespace)
        self.name = _CUDA_NAMES.get(schema.name, schema.name)
        self.multiplies = kind_of(schema.name) in _MULTIPLYING
        """It multiplies matrices in some form, so that its FLOPs count, and TF32 matters."""
        self.scans = kind_of(schema.name) == "scan"
        """Its price depends on the dimension that it goes along."""
        self.cuda_kernel = kernels().get(short) if func.namespace == "aten" else None
        """What CUDA's kernel lacks; None for most."""
        self.hidden_view = short in _HIDDEN_VIEWS
        self.is_plain = not writes and not is_view and not self.hidden_view
        """Its results are new tensors."""
        one_tensor = [str(one.type) for one in schema.returns] == ["Tensor"]
        self.is_fresh = self.is_plain and (one_tensor or [str(one.type) for one in schema.returns] == ["List[Tensor]"])
        """It gives one new tensor, or a list of such."""
        self.is_view = one_tensor and is_view and not writes and str(schema.arguments[0].type) == "Tensor"
        """Its result is a view of its first argument."""
        self.writes = [
            (position, one.name)
            for position, one in enumerate(schema.arguments)
            if one.alias_info is not None and one.alias_info.is_write
        ]
        """Positions and names of the arguments that it writes to."""
        written = self.writes if torch.Tag.pointwise in func.tags else []
        self.written_places = frozenset(place for pair in written for place in pair)
        """Where a CPU tensor without dimensions would be written, which is as wrong as any: TensorIterator.cpp."""
        self.returns_nothing = not schema.returns
        self.returns_first = (
            one_tensor
            and len(writes) == 1
            and schema.arguments[0].alias_info is not None
            and schema.arguments[0].alias_info.is_write
            and aliases[0] is not None
            and not self.hidden_view
        )
        """It writes to its first argument, and gives that back."""
        self.out_names = [one.name for one in writes if one.kwarg_only]
        """The names of its `out` arguments."""
        self.may_resize = bool(self.out_names)
        self.is_kernel = not is_view and short not in _NO_KERNEL and func.namespace != "profiler"
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.takes_generator = any(one.name == "generator" for one in schema.arguments)
        self.reads_at_indices = short in _READS_AT_INDICES
        self.puts_at_indices = short in _PUTS
        self.host_places = _INDICES if self.reads_at_indices or self.puts_at_indices else frozenset()
        """Where a CPU tensor may stand beside device tensors: positions and names of arguments."""
        self.growth = _growth(short, torch.Tag.pointwise in func.tags) if self.is_kernel and not writes else ""
        """How far its results can outgrow its arguments; empty for one that makes no tensor."""
        self.checks_scalars = short in _CHECKS_SCALARS
        """A CPU tensor without dimensions is as wrong there as any."""
        self.waits = _waits_of(short, func._overloadname)
        self.custom = func.namespace not in TORCHS_OWN and self.rule is None
        """It comes from outside of torch: `custom` runs its body."""
        self.composite = self.custom or (func.namespace == "aten" and private.has_composite_kernel(func.name()))
        """It calls other operators, each of which is recorded."""
        self.made_of_others = private.explicit_composite(func)
        """Runs one that PyTorch writes in terms of others with a gradient of its own; None for a kernel."""

    def written_among(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
        """The tensors among the arguments that it writes to."""
        for position, name in self.writes:
            value = args[position] if position < len(args) else kwargs.get(name)
            if type(value) is list or type(value) is tuple:
                yield from value
            elif value is not None:
                yield value

    def argument(self, where: int | str) -> str:
        """The name of an argument, given its position or its name."""
        return where if isinstance(where, str) else str(self.func._schema.arguments[where].name)


OPERATORS: dict[int, Operator] = {}
"""By the overload's id: torch keeps overloads for ever, and to hash one takes as long as half an operator."""


def describe(func: Any) -> Operator:
    """The record of an overload, made at its first use."""
    found = OPERATORS[id(func)] = Operator(func)
    return found


def operator_of(func: Any) -> Operator:
    """The record of an overload."""
    return OPERATORS.get(id(func)) or describe(func)


def add_rules(rules: dict[Any, Rule]) -> None:
    """Say how special operators are run; what was described before is described anew."""
    if not rules.items() <= RULES.items():
        RULES.update(rules)
        OPERATORS.clear()

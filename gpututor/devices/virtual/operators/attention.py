"""`scaled_dot_product_attention`: the backend that CUDA would choose, or its error if none may run.

For a virtual tensor, C++ would run attention unfused: two products and a softmax, with the score matrix in memory. So
the backend is chosen here, as in aten/src/ATen/native/transformers/cuda/sdp_utils.cpp. Each backend is CUDA's own
operator, with PyTorch's autograd; `attention_kernels` computes its values. Under torch.func, attention runs unfused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.cuda_errors import warn_at_caller
from gpututor.devices.virtual.machine import VirtualGpu, active_machine
from gpututor.devices.virtual.operators import autocast
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_HALF = (torch.float16, torch.bfloat16)
_AMPERE = (8, 0)
_DEFAULT_ORDER = torch_private.sdp_priority_order()
_CUDNN_FIRST = (9, 10)
"""Major compute capabilities on which cuDNN's kernel comes first, unless the program chooses another order."""
aten = torch.ops.aten


def attention(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `scaled_dot_product_attention` on (batch, heads, length, features), fused if CUDA fuses it.

    Raises CUDA's error if all backends that may run are switched off.
    """
    given, tensors, mask = _given(args, kwargs)
    if not all(type(tensor) is VirtualTensor for tensor in tensors) or not (
        mask is None or type(mask) is VirtualTensor
    ):
        return func(*args, **kwargs)
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        tensors = [autocast.cast(tensor, dtype) for tensor in tensors]
        mask = autocast.cast(mask, dtype)
    query, key, value = tensors
    call = _Call(query, key, value, mask, given)
    backend = call.backend()
    on_same_device = query._device is key._device is value._device
    if backend is None or not on_same_device or torch_private.functorch_is_on():
        return func(*args, **kwargs)
    return _call_backend(backend, call)


def attention_in_graph(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `scaled_dot_product_attention` on the fake tensors of a graph that is captured for the compiler."""
    given, tensors, mask = _given(args, kwargs)
    query, key, value = tensors
    call = _Call(query, key, value, mask, given)
    backend = call.backend()
    return func(*args, **kwargs) if backend is None else _call_backend(backend, call)


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any, Any]:
    """Return the arguments by name; query, key and value; and the mask."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return given, [given.get(name) for name in names[:3]], given.get("attn_mask")


def _call_backend(backend: _Backend, call: _Call) -> Any:
    tensors, mask = call.tensors, call.mask
    if mask is not None and mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=tensors[0].dtype).masked_fill_(mask.logical_not(), -torch.inf)
    scale = call.given.get("scale")
    if mask is not None and backend.kind is SDPBackend.EFFICIENT_ATTENTION:
        if mask.dtype is not call.query.dtype:
            raise RuntimeError("invalid dtype for bias - should match query's dtype")
        if mask.requires_grad:  # the kernel returns a gradient for each pair
            mask = mask.expand(*call.query.shape[:3], call.key.shape[2])
    if backend.takes_masks:
        return backend.operator(*tensors, mask, call.needs_gradients, call.dropout, call.causal, scale=scale)[0]
    return backend.operator(*tensors, call.dropout, call.causal, False, scale=scale)[0]


def _gpu_of(tensor: Any) -> VirtualGpu:
    machine = active_machine()
    return machine.home(tensor._device) if type(tensor) is VirtualTensor else machine.gpus[tensor.device.index or 0]


@dataclass(frozen=True)
class _Backend:
    """A fused kernel of CUDA, with its limits."""

    name: str
    """Name in CUDA's warnings."""
    setting: str
    """The function of `torch.backends.cuda` that says whether it is switched on."""
    disabled: str
    """CUDA's message if it is switched off."""
    takes_masks: bool
    takes_float32: bool
    takes_fewer_heads: bool
    """True if keys and values may have fewer heads than the query (`enable_gqa`)."""
    since: tuple[int, int]
    """The first compute capability."""
    limits: Callable[[_Call], str]
    """Function that returns the reason why the kernel does not take the sizes, in CUDA's words; "" if it does."""
    operator: Any
    kind: SDPBackend

    def is_enabled(self) -> bool:
        return bool(getattr(torch.backends.cuda, self.setting)())


def _limits_of_efficient(call: _Call) -> str:
    step = 1
    if call.query.dtype in _HALF:
        step = 8 if call.capability >= (7, 0) else 1
    elif call.capability >= _AMPERE:
        step = 4
    query, key, value = call.features
    if query == key and query % step == value % step == 0:
        return ""
    return (
        f"Mem efficient attention requires last dimension of inputs to be divisible by {step}. "
        f"{call.got_features()} instead."
    )


def _limits_of_flash(call: _Call) -> str:
    size = call.features[0]
    if len(set(call.features)) > 1 or size > 256:
        return (
            "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. "
            f"{call.got_features()} instead."
        )
    untrained = 192 < size <= 224 or (size > 224 and call.dropout > 0)
    if untrained and call.needs_gradients and (8, 6) <= call.capability <= (8, 9):
        major, minor = call.capability
        return (
            "Flash attention currently doesn't support training with head_dim ∈ (192, 224] or (head_dim ∈ (224, 256] "
            "and dropout > 0.0) on gpu architectures in the range[sm86, sm89]. Attempting to run with dropout set to: "
            f"{call.dropout:g} and head_dim: {size} on a sm {major}.{minor} gpu."
        )
    queries, keys = call.query.shape[2], call.key.shape[2]
    if call.causal and queries != keys:
        return (
            "Flash attention does not support the is_causal flag when seqlen_q != seqlen_k. "
            f"Got seqlen_q: {queries} seqlen_k: {keys}. "
            "If you would like to use causal attention with non-square masks, please see CausalAttnMask."
        )
    return ""


def _limits_of_cudnn(call: _Call) -> str:
    if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
        return "cuDNN SDPA is not deterministic."
    if max(call.features) > 128:
        return "head_dim should be no more than 128"
    if any(size % 8 for size in call.features):
        return "head_dim should be a multiple of 8"
    if call.key.shape[2] == 1:
        return "cudnn SDPA does not support key/value sequence length 1."
    if call.query.shape[2] == 1 and call.dropout:
        return "cudnn SDPA does not support query sequence length 1 with dropout."
    return ""


_BACKENDS = (
    _Backend(
        "Memory efficient kernel",
        "mem_efficient_sdp_enabled",
        "Memory Efficient attention has been runtime disabled.",
        takes_masks=True,
        takes_float32=True,
        takes_fewer_heads=False,
        since=(5, 0),
        limits=_limits_of_efficient,
        operator=aten._scaled_dot_product_efficient_attention,
        kind=SDPBackend.EFFICIENT_ATTENTION,
    ),
    _Backend(
        "Flash attention kernel",
        "flash_sdp_enabled",
        "Flash attention has been runtime disabled.",
        takes_masks=False,
        takes_float32=False,
        takes_fewer_heads=True,
        since=_AMPERE,
        limits=_limits_of_flash,
        operator=aten._scaled_dot_product_flash_attention,
        kind=SDPBackend.FLASH_ATTENTION,
    ),
    _Backend(
        "cuDNN attention kernel",
        "cudnn_sdp_enabled",
        "cuDNN attention has been runtime disabled.",
        takes_masks=True,
        takes_float32=False,
        takes_fewer_heads=True,
        since=_AMPERE,
        limits=_limits_of_cudnn,
        operator=aten._scaled_dot_product_cudnn_attention,
        kind=SDPBackend.CUDNN_ATTENTION,
    ),
)
_CPP_NAMES = {torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "Float", torch.float64: "Double"}


@dataclass(frozen=True)
class _Call:
    """A call of `scaled_dot_product_attention`, after autocast."""

    query: Any
    key: Any
    value: Any
    mask: Any
    given: dict[str, Any]

    @property
    def tensors(self) -> tuple[Any, Any, Any]:
        return self.query, self.key, self.value

    @property
    def features(self) -> list[int]:
        return [tensor.shape[3] for tensor in self.tensors]

    @property
    def capability(self) -> tuple[int, int]:
        return _gpu_of(self.query).spec.capability

    @property
    def dropout(self) -> float:
        return float(self.given.get("dropout_p", 0.0))

    @property
    def causal(self) -> bool:
        return bool(self.given.get("is_causal", False))

    @property
    def needs_gradients(self) -> bool:
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.tensors)

    def got_features(self) -> str:
        query, key, value = self.features
        return f"Got Query.size(-1): {query}, Key.size(-1): {key}, Value.size(-1): {value}"

    def backend(self) -> _Backend | None:
        """Return the first backend in CUDA's order that may run; None if that is unfused attention.

        Raises CUDA's error if none may run.
        """
        order = torch_private.sdp_priority_order()
        if order == _DEFAULT_ORDER and self.capability[0] in _CUDNN_FIRST:
            order.insert(0, SDPBackend.CUDNN_ATTENTION.value)
        backends = {backend.kind.value: backend for backend in _BACKENDS}
        for kind in order:
            if kind == SDPBackend.MATH.value and torch.backends.cuda.math_sdp_enabled():
                return None
            if kind in backends and not self.obstacle(backends[kind]):
                return backends[kind]
        for words in self.reasons():
            warn_at_caller(words)
        raise RuntimeError("No available kernel. Aborting execution.")

    def reasons(self) -> Iterator[str]:
        """Yield CUDA's warnings if no backend may run."""
        for backend in _BACKENDS:
            yield f"{backend.name} not used because:"
            yield self.obstacle(backend)

    def obstacle(self, backend: _Backend) -> str:
        """Return the reason why a backend cannot run, in CUDA's words; "" if it can."""
        if not backend.is_enabled():
            return backend.disabled
        shapes = [tensor.shape for tensor in self.tensors]
        if not all(len(shape) == 4 for shape in shapes):
            sizes = ", ".join(str(len(shape)) for shape in shapes)
            return f"All fused kernels require query, key and value to be 4 dimensional. Got dimensions {sizes}."
        if any(0 in shape for shape in shapes):
            return "All fused kernels do not support zero sequence lengths."
        if self.mask is not None and not (backend.takes_masks and self._mask_fits(backend)):
            return f"{backend.name.removesuffix(' kernel').capitalize()} does not support non-null attn_mask."
        if reason := self._device_obstacle(backend):
            return reason
        heads = [shape[1] for shape in shapes]
        is_grouped = backend.takes_fewer_heads and bool(self.given.get("enable_gqa", False))
        if len({shape[0] for shape in shapes}) > 1 or shapes[1][2] != shapes[2][2] or heads[1] != heads[2]:
            return "For dense inputs, query, key and value need the same batch size, key and value the same length."
        if heads[0] != heads[1] and not (is_grouped and heads[0] % heads[1] == 0):
            return "For dense input, both fused kernels require query, key and value to have the same num_heads."
        if reason := backend.limits(self):
            return reason
        tensors = self.tensors if self.mask is None else (*self.tensors, self.mask)
        if any(tensor.stride(-1) != 1 for tensor in tensors):
            return "All fused kernels require the last dimension of the input to have stride 1."
        return ""

    def _device_obstacle(self, backend: _Backend) -> str:
        major, minor = self.capability
        if (major, minor) < backend.since:
            first = "".join(map(str, backend.since))
            return (
                f"{backend.name.removesuffix(' kernel')} only supports gpu architectures from sm{first} on. "
                f"Attempting to run on a sm {major}.{minor} gpu."
            )
        dtypes = [tensor.dtype for tensor in self.tensors]
        allowed = [torch.float32] if backend.takes_float32 else []
        allowed += [torch.float16] if (major, minor) < _AMPERE else _HALF
        if len(set(dtypes)) > 1 or dtypes[0] not in allowed:
            names = ", ".join(_CPP_NAMES[dtype] for dtype in sorted(allowed, key=str, reverse=True))
            query, key, value = (_CPP_NAMES.get(dtype, str(dtype)[6:]) for dtype in dtypes)
            return (
                f"Expected query, key and value to all be of dtype: {{{names}}}. Got Query dtype: {query}, "
                f"Key dtype: {key}, and Value dtype: {value} instead."
            )
        return ""

    def _mask_fits(self, backend: _Backend) -> bool:
        mask, query, key = self.mask, self.query, self.key
        is_learned = mask.requires_grad and backend.kind is not SDPBackend.EFFICIENT_ATTENTION
        if self.causal or is_learned or mask.dtype not in (torch.bool, torch.float32, query.dtype):
            return False
        wanted = (*query.shape[:3], key.shape[2])
        return mask.dim() in (2, 4) and all(
            length in (1, whole) for length, whole in zip(reversed(mask.shape), reversed(wanted), strict=False)
        )


def can_use_efficient(params: Any, debug: bool = False) -> bool:
    return _can_use(_BACKENDS[0], params, debug)


def can_use_flash(params: Any, debug: bool = False) -> bool:
    return _can_use(_BACKENDS[1], params, debug)


def can_use_cudnn(params: Any, debug: bool = False) -> bool:
    return _can_use(_BACKENDS[2], params, debug)


def _can_use(backend: _Backend, params: Any, debug: bool) -> bool:
    """Return True if a backend may run a call (`torch.backends.cuda.SDPAParams`); otherwise `debug` warns why."""
    query, key, value = params.query, params.key, params.value
    if query.device.type == "cpu":
        obstacle = (
            f"All tensors need to be on cuda device. Got query on device: {query.device}, key on device: {key.device}, "
            f"value on device: {value.device}"
        )
    else:
        given = {"dropout_p": params.dropout, "is_causal": params.is_causal, "enable_gqa": params.enable_gqa}
        obstacle = _Call(query, key, value, params.attn_mask, given).obstacle(backend)
    if obstacle and debug:
        warn_at_caller(obstacle)
    return not obstacle

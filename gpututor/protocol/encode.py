"""Encoding: Python trees with tensors as JSON nodes and raw bytes. Needs torch; no pickle.

No code of a value runs here, except its `repr`: methods are called on the classes `list`, `dict`, `torch.Tensor` and
`torch.nn.Module`. A lazy value could otherwise compute after the call, while it is encoded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy
import torch

from gpututor.protocol.values import (
    DTYPES,
    MAX_DEPTH,
    MAX_NAME,
    MAX_NODES,
    MAX_SAID,
    MAX_TENSOR_BYTES,
    MAX_TENSORS,
    MAX_TEXT,
    MAX_TOTAL_BYTES,
    NOT_IN_NUMPY,
    TensorFact,
    ValueRefused,
    iter_parts,
    joined,
    state_of,
    tensors_in,
)


@dataclass(frozen=True)
class TensorView:
    """Functions that read tensors without a trace; the virtual GPU has its own."""

    host: Callable[[torch.Tensor], torch.Tensor]
    """Returns the tensor's values on the CPU, detached."""
    storage: Callable[[torch.Tensor], int]
    pinned: Callable[[torch.Tensor], bool]
    exact_types: tuple[type, ...]


def plain_view() -> TensorView:
    """Return the functions for ordinary tensors."""
    return TensorView(
        host=lambda tensor: tensor.detach().cpu(),
        storage=lambda tensor: tensor.untyped_storage().data_ptr(),
        pinned=lambda tensor: tensor.device.type == "cpu" and tensor.is_pinned(),
        exact_types=(torch.Tensor, torch.nn.Parameter),
    )


class Encoder:
    """Encodes values as JSON nodes and buffers, each tensor once, with at most `most_bytes` of tensors."""

    def __init__(self, view: TensorView | None = None, most_bytes: int = MAX_TOTAL_BYTES) -> None:
        self.view = view or plain_view()
        self.buffers: list[bytes] = []
        self._kept: list[object] = []
        self._tensors: dict[int, int] = {}
        """The buffer of each encoded tensor, by its identity."""
        self._nodes = self._total_bytes = self._said = 0
        self._most_bytes = most_bytes
        self._in_key = False

    def pack(self, value: object, depth: int = 0) -> dict[str, Any]:
        """Return a JSON node. Raises `ValueRefused` for trees too deep or large and tensors that cannot be sent."""
        self._count_node(depth)
        match value:
            case numpy.float64() | numpy.str_() if type(value) in (numpy.float64, numpy.str_):
                return self.pack(value.item(), depth)  # subclasses of float and str; numpy.mean returns the first
            case None | True | False:
                return {"k": "plain", "v": value}
            case int() if type(value) is int:
                return {"k": "int", "v": _digits(value)}
            case float() if type(value) is float:
                return {"k": "float", "v": value if math.isfinite(value) else repr(value)}
            case str() if type(value) is str:
                return {"k": "plain", "v": self._text(value[:MAX_TEXT].encode("utf-8", "replace").decode())}
            case torch.Tensor():
                return self._tensor(value)
            case torch.nn.Module():
                return self._module(value)
            case torch.Size() if type(value) is torch.Size:
                return {"k": "size", "v": [str(length) for length in value]}
            case torch.device() if type(value) is torch.device:
                return {"k": "device", "v": str(value)}
            case torch.dtype() if type(value) is torch.dtype:
                return {"k": "dtype", "v": str(value)}
            case list():
                return {"k": "list", "v": [self.pack(item, depth + 1) for item in list.__iter__(value)]}
            case tuple():
                return {"k": "tuple", "v": [self.pack(item, depth + 1) for item in tuple.__iter__(value)]}
            case dict():
                pairs = [[self._key(key, depth + 1), self.pack(item, depth + 1)] for key, item in dict.items(value)]
                return {"k": "dict", "v": pairs}
            case numpy.ndarray() if type(value) is numpy.ndarray:
                return self._array(value)
        return {"k": "object", "type": type(value).__name__[:MAX_NAME], "v": self._text(_safe_repr(value))}

    def _key(self, key: object, depth: int) -> dict[str, Any]:
        """Encode a dict's key: it may not contain tensors, which are not comparable as keys."""
        outermost = not self._in_key
        self._in_key = True
        node = self.pack(key, depth)
        self._in_key = not outermost
        return node

    def _refuse_in_key(self, what: str) -> None:
        if self._in_key:
            raise ValueRefused(f"a dict whose keys hold {what}: use names or numbers as keys")

    def facts(self, value: object) -> dict[str, dict[str, Any]]:
        """Return the facts, without values, of each tensor in `value`, by path: `x`, `batch.0`, `model.weight`."""
        return {path: self._fact(tensor) for path, tensor in tensors_in(value).items()}

    def digests(self, value: object) -> dict[str, str]:
        """Return a digest of shape, dtype and values of each tensor in `value`, by path."""
        return {path: self._digest(tensor) for path, tensor in tensors_in(value).items()}

    def _digest(self, tensor: torch.Tensor) -> str:
        host = self.view.host(tensor).resolve_conj().resolve_neg().contiguous()
        digest = blake2b(f"{tuple(host.shape)} {host.dtype} ".encode(), digest_size=16)
        if host.numel():
            digest.update(host.reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _tensor(self, tensor: torch.Tensor, *, is_grad: bool = False) -> dict[str, Any]:
        self._refuse_in_key("tensors")
        known = self._tensors.get(id(tensor))
        if known is not None:
            return {"k": "again", "buffer": known}
        node = self._new_tensor(tensor, is_grad)
        self._tensors[id(tensor)] = node["buffer"]
        return node

    def _new_tensor(self, tensor: torch.Tensor, is_grad: bool) -> dict[str, Any]:
        if type(tensor) not in self.view.exact_types:
            raise ValueRefused(f"a {type(tensor).__name__} is not a plain torch.Tensor")
        if replaced := [name for name in vars(tensor) if hasattr(torch.Tensor, name)]:
            raise ValueRefused(f"a tensor whose {replaced[0]} was replaced")
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in DTYPES or tensor.layout is not torch.strided:
            kind = str(tensor.dtype) if tensor.layout is torch.strided else str(tensor.layout)
            raise ValueRefused(f"a {kind} tensor cannot be sent to the grader and compared")
        self._count(tensor.numel() * tensor.element_size())
        host = self.view.host(tensor).resolve_conj().resolve_neg().contiguous()
        # A gradient's own gradient is not sent: it could be part of a cycle.
        grad = tensor.grad if tensor.is_leaf and not is_grad else None
        return {
            "k": "tensor",
            "fact": self._fact(tensor),
            "buffer": self._bytes(host),
            "grad": None if grad is None else self._tensor(grad, is_grad=True),
        }

    def _fact(self, tensor: torch.Tensor) -> dict[str, Any]:
        self._kept.append(tensor)  # so that no other object gets its id
        fact = TensorFact(
            type_name="Parameter" if isinstance(tensor, torch.nn.Parameter) else "Tensor",
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device=str(tensor.device),
            strides=tuple(tensor.stride()),
            offset=int(tensor.storage_offset()),
            identity=id(tensor),
            storage=self.view.storage(tensor),
            requires_grad=bool(tensor.requires_grad),
            is_leaf=bool(tensor.is_leaf),
            pinned=bool(self.view.pinned(tensor)),
        )
        return {**vars(fact), "identity": str(fact.identity), "storage": str(fact.storage)}

    def _module(self, module: torch.nn.Module) -> dict[str, Any]:
        self._refuse_in_key("modules")
        parts = iter_parts(module)
        buffers, parameters = dict(state_of(parts, "_buffers")), dict(state_of(parts, "_parameters"))
        non_persistent = [joined(at, name) for at, part in parts for name in vars(part)["_non_persistent_buffers_set"]]
        layers = [[self._text(path), _name(part), self._settings(part)] for path, part in parts if path]
        self._count_node(0, len(layers) + len(parameters) + len(buffers))
        return {
            "k": "module",
            "type": _name(module),
            "layers": layers,
            "passing": sorted(buffers.keys() & set(non_persistent)),
            "training": bool(module.training),
            "parameters": {self._text(name): self._tensor(parameter) for name, parameter in parameters.items()},
            "buffers": {self._text(name): self._tensor(buffer) for name, buffer in buffers.items()},
        }

    def _settings(self, module: torch.nn.Module) -> str:
        """Return `8, 4, kernel_size=(3, 3)`, a part of the module's `repr`; empty if it raises an error."""
        try:
            return self._text(str(module.extra_repr())[:MAX_NAME])
        except ValueRefused:
            raise
        except Exception:
            return ""

    def _array(self, array: Any) -> dict[str, Any]:
        self._refuse_in_key("arrays")
        if array.dtype.name not in DTYPES or array.dtype.name in NOT_IN_NUMPY:
            raise ValueRefused(f"a NumPy array of {array.dtype} cannot be compared")
        self._count(array.nbytes)
        # A copy in the machine's own byte order; not torch.tensor(), which would follow a default device.
        tensor = torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
        return {
            "k": "array",
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "storage": str(array.__array_interface__["data"][0]),
            "buffer": self._bytes(tensor.contiguous()),
        }

    def _count_node(self, depth: int, nodes: int = 1) -> None:
        self._nodes += nodes
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise ValueRefused("the result is nested too deeply or has too many parts")

    def _text(self, text: str) -> str:
        self._said += len(text)
        if self._said > MAX_SAID:
            raise ValueRefused(f"the result holds more than {MAX_SAID:,} characters of text")
        return text

    def _count(self, size_bytes: int) -> None:
        """Raise `ValueRefused` for too many bytes, before they are copied."""
        self._total_bytes += size_bytes
        most = min(MAX_TENSOR_BYTES, self._most_bytes)
        if size_bytes > most or self._total_bytes > self._most_bytes:
            raise ValueRefused(f"the result has {self._total_bytes:,} bytes; at most {most:,} are compared")
        if len(self.buffers) >= MAX_TENSORS:
            raise ValueRefused(f"the result has more than {MAX_TENSORS:,} tensors")

    def _bytes(self, host: torch.Tensor) -> int:
        self.buffers.append(host.reshape(-1).view(torch.uint8).numpy().tobytes() if host.numel() else b"")
        return len(self.buffers) - 1


def _name(module: torch.nn.Module) -> str:
    return type(module).__name__[:MAX_NAME]


def _digits(value: int) -> str:
    if value.bit_length() > 4096:
        raise ValueRefused("the result holds a whole number of more than 4,096 bits")
    return str(value)


def _safe_repr(value: object) -> str:
    try:
        return repr(value)[:2000]
    except Exception as error:
        return f"<its repr raised {type(error).__name__}>"

"""What arrives of a value that lived in another process: tensors with facts about the originals. Needs torch.

A tensor travels as a contiguous copy of its bytes and a `TensorFact`: what could be seen of it where it lived.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

MAX_DEPTH = 64
MAX_TEXT = 1 << 20
MAX_SAID = 4 << 20
"""Characters of all texts of a result together."""
MAX_NAME = 200
MAX_NODES = 200_000
MAX_TENSORS = 4096
MAX_TENSOR_BYTES = 256 << 20
MAX_TOTAL_BYTES = 512 << 20
MAX_DIMENSIONS = 64
MAX_LENGTH = 1 << 48

MAX_KEY = 200
"""Characters by which an object is known that is the key of a dict."""

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    )
}  # fmt: skip
"""Of tensors that travel."""
NAMED_DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}
"""All that there are: a dtype itself is only a name."""
NOT_IN_NUMPY = ("bfloat16",)


class ValueRefused(Exception):
    """Something that does not travel, or bytes that are no value. Its text is safe to show."""


@dataclass(frozen=True)
class TensorFact:
    """What was seen of a tensor where it lived. `identity` and `storage` are only comparable within one call."""

    type_name: str
    """`Tensor` or `Parameter`."""
    shape: tuple[int, ...]
    dtype: str
    """Without `torch.`: `float32`."""
    device: str
    """`cpu`, `cuda:0`, …"""
    strides: tuple[int, ...]
    offset: int
    identity: int
    """Equal for one object met twice."""
    storage: int
    """Equal for tensors that share memory."""
    requires_grad: bool = False
    is_leaf: bool = True
    pinned: bool = False
    layout: str = "strided"


@dataclass(frozen=True)
class ObservedTensor:
    """A tensor that arrived: its values on the CPU, contiguous, and the facts about the original."""

    fact: TensorFact
    # Whoever prints it wants no values: those of thousands would take minutes.
    values: torch.Tensor = field(repr=False)
    grad: ObservedTensor | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ObservedModule:
    """A module that arrived: its class, and its parameters and buffers by their state names."""

    class_name: str
    layers: tuple[tuple[str, str], ...]
    """(name, class) of each submodule, in order."""
    training: bool
    parameters: dict[str, ObservedTensor] = field(repr=False)
    buffers: dict[str, ObservedTensor] = field(repr=False)
    """Those that a state dict leaves out are among them."""
    passing: tuple[str, ...]
    """The names of the buffers that a state dict leaves out."""

    @property
    def tensors(self) -> dict[str, ObservedTensor]:
        return {**self.parameters, **self.buffers}

    @property
    def state(self) -> dict[str, ObservedTensor]:
        """What a state dict holds."""
        return {name: tensor for name, tensor in self.tensors.items() if name not in self.passing}


@dataclass(frozen=True)
class ObservedArray:
    """A NumPy array that arrived, as a CPU tensor."""

    values: torch.Tensor = field(repr=False)
    storage: int


@dataclass(frozen=True)
class ObservedObject:
    """Something else that arrived: only its type and its bounded repr."""

    type_name: str
    text: str

"""All private names of Triton that the virtual GPU uses, with the versions that have them.

Imports Triton: only `hook` imports this module, after the program has imported Triton.
"""

from __future__ import annotations

import dis
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any
from unittest.mock import patch

import triton
import triton.language as tl

from gpututor.hardware.packages import PACKAGES, PackageNotSupported, install_command

try:
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDAOptions, min_dot_size
    from triton.language.semantic import TritonSemantic
    from triton.runtime import driver, interpreter
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.errors import InterpreterError
    from triton.runtime.interpreter import (
        InterpretedFunction,
        InterpreterBuilder,
        InterpreterOptions,
        TensorHandle,
        _patch_lang,
    )
    from triton.runtime.interpreter import _interpreter as native
    from triton.runtime.jit import JITFunction, TensorWrapper
    from triton.tools.tensor_descriptor import TensorDescriptor

    _hooked = (JITFunction.run, JITFunction.__call__, InterpretedFunction.run, InterpretedFunction.__call__)
    bench_configuration: Any = Autotuner._bench
    _used = (interpreter.interpreter_semantic, interpreter.interpreter_builder, driver.set_active)
except (ImportError, AttributeError) as error:
    raise PackageNotSupported(
        f"Triton {triton.__version__} has no {getattr(error, 'name', None) or error}, which the virtual GPU needs.",
        f"It runs kernels of Triton {PACKAGES['triton'].versions}: run `{install_command('triton')}`.",
    ) from error

__all__ = [
    "GPUTarget",
    "InterpretedFunction",
    "InterpreterBuilder",
    "InterpreterError",
    "InterpreterOptions",
    "JITFunction",
    "TensorDescriptor",
    "TensorHandle",
    "TensorWrapper",
    "knobs",
    "native",
    "tl",
    "triton",
]

TRITON_TYPES = {
    "bool": tl.int1, "int8": tl.int8, "int16": tl.int16, "int32": tl.int32, "int64": tl.int64,
    "uint8": tl.uint8, "uint16": tl.uint16, "uint32": tl.uint32, "uint64": tl.uint64,
    "float16": tl.float16, "bfloat16": tl.bfloat16, "float32": tl.float32, "float64": tl.float64,
    "float8_e4m3fn": tl.float8e4nv, "float8_e5m2": tl.float8e5,
}  # fmt: skip
"""Triton's type of each dtype of torch."""

OPTION_NAMES = frozenset(CUDAOptions.__dataclass_fields__)
"""Keywords of a launch that are not arguments of the kernel, such as `num_warps`."""
np_dtype_of: Callable[[Any], Any] = interpreter._get_np_dtype
integer: Callable[[Any], Any] = interpreter._implicit_cvt
"""Returns an int as a tensor of the interpreter."""
least_dot: Callable[[Any, Any], tuple[int, int, int]] = min_dot_size(GPUTarget("cuda", 80, 32))
"""Returns the least M, N and K of `tl.dot` on an NVIDIA GPU, for two types."""
constexpr = tl.constexpr
block_type = tl.block_type


def tuple_like(value: tuple[Any, ...], parts: Any) -> Any:
    """Return a tuple or named tuple of the same kind."""
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def pointer_tensor(address: int, dtype: Any) -> Any:
    import numpy as np

    kind = tl.pointer_type(dtype)
    return tl.tensor(TensorHandle(np.array([address], dtype=np.uint64), kind), kind)


def scalar_tensor(value: Any, dtype: Any) -> Any:
    import numpy as np

    return tl.tensor(TensorHandle(np.array([value], dtype=np_dtype_of(dtype)), dtype), dtype)


def is_constexpr(parameter: Any) -> bool:
    """Return True if a parameter of a kernel is annotated `tl.constexpr`."""
    annotation = parameter.annotation
    return annotation is tl.constexpr or "constexpr" in str(annotation)


_PLAIN = (bool, int, float, str, list, dict)


def check_globals(fn: FunctionType) -> None:
    """Raise the error of Triton's compiler if a kernel uses a plain value of its module."""
    if knobs.compilation.allow_non_constexpr_globals:
        return
    for step in dis.get_instructions(fn):
        name = str(step.argval)
        if step.opname == "LOAD_GLOBAL" and isinstance(fn.__globals__.get(name), _PLAIN):
            raise NameError(  # triton/compiler/code_generator.py
                f"Cannot access global variable {name} from within @jit'ed function. Triton kernels can only access"
                " global variables that are instanstiated as constexpr (`x = triton.language.constexpr(42)`)."
            )


def check_kind(value: Any) -> None:
    """Raise Triton's error for a kernel argument that is not a number, tensor, dtype or function."""
    if isinstance(value, str | list | dict) or type(value).__module__ == "numpy":
        raise TypeError(f"failed to specialize argument of type: {type(value).__name__}")  # native_specialize_impl


_block_types: dict[tuple[tuple[int, ...], str], Any] = {}


def _block_type(kind: Any, shape: Any) -> Any:
    """Return the type of a block of `kind`; each type is created once."""
    key = (tuple(shape), kind.name)
    known = _block_types.get(key)
    if known is None:
        known = _block_types[key] = tl.block_type(kind, list(shape))
    return known


class _Semantic(TritonSemantic):  # type: ignore[misc]
    """Triton's rules of types and shapes, with a fast path for the usual pairs of operands."""

    def broadcast_impl_value(self, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if left.is_block():
            if not right.is_block():
                kind = _block_type(right, left.shape)
                return lhs, self.tensor(self.builder.create_splat(kind, rhs.handle), kind)
            if left is right or tuple(left.shape) == tuple(right.shape):
                return lhs, rhs
        elif right.is_block():
            kind = _block_type(left, right.shape)
            return self.tensor(self.builder.create_splat(kind, lhs.handle), kind), rhs
        else:
            return lhs, rhs
        return super().broadcast_impl_value(lhs, rhs)

    def _bool_like(self, v: Any) -> Any:
        return _block_type(tl.int1, v.type.shape) if v.type.is_block() else tl.int1


def semantic_of(builder: Any) -> Any:
    return _Semantic(builder)


class _Language:
    """The interpreter's replacements in `triton.language`, collected once and set for each launch."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._depth = 0
        self._rows: list[tuple[Any, str, Any, Any]] = []
        """Owner, name, Triton's own value or `_ABSENT`, replacement."""

    def _list(self, reduce: Callable[..., Any], tensor_init: Callable[..., Any]) -> None:
        owners = (tl, tl.core, tl.math, tl.tensor, tl.core.dtype, tl.core.tensor_descriptor_base)
        before = {id(owner): dict(vars(owner)) for owner in owners}
        _patch_lang(_FunctionWithGlobals({"tl": tl, "core": tl.core}))
        rows = {
            (id(owner), name): (owner, name, before[id(owner)].get(name, _ABSENT), new)
            for owner in owners
            for name, new in list(vars(owner).items())
            if before[id(owner)].get(name, _ABSENT) is not new
        }
        for owner, name, old, _ in rows.values():
            _put(owner, name, old)
        for owner in (tl, tl.core):
            key = (id(owner), "reduce")
            rows[key] = (*rows[key][:3], reduce(rows[key][3]))
        for name, new in (("__init__", tensor_init), ("__index__", _index)):
            rows[id(tl.tensor), name] = (tl.tensor, name, before[id(tl.tensor)].get(name, _ABSENT), new)
        self._rows = list(rows.values())

    @contextmanager
    def interpreted(self, reduce: Callable[..., Any], tensor_init: Callable[..., Any]) -> Iterator[None]:
        """Make `tl` compute on NumPy arrays inside the block; `reduce` wraps the interpreter's own."""
        with self.lock:
            if not self._rows:
                self._list(reduce, tensor_init)
            self._depth += 1
            try:
                if self._depth == 1:
                    for owner, name, _, replacement in self._rows:
                        setattr(owner, name, replacement)
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    for owner, name, before, _ in self._rows:
                        _put(owner, name, before)


_ABSENT = object()


def _index(self: Any) -> int:
    """Return a tensor of one element as an int; Triton 3.6 does so only below NumPy 2.4."""
    return int(self.handle.data.reshape(-1)[0])


def _put(owner: Any, name: str, value: Any) -> None:
    """Set an attribute, or remove it if `value` is `_ABSENT`."""
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


class _FunctionWithGlobals:
    """Object with a function's `__globals__`, for `_patch_lang`."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__globals__ = names


language = _Language()


@contextmanager
def replace_launcher(
    run: Callable[..., Any],
    call: Callable[..., Any],
    bench: Callable[..., Any],
    do_bench: Callable[..., Any],
    semantic: Any,
    stand_in: Any,
) -> Iterator[None]:
    """Launch kernels by `run`, call device functions by `call`, and use the driver `stand_in` inside the block.

    `bench` times a configuration of `triton.autotune`.
    """
    import triton.testing

    rows = [
        (JITFunction, "run", run),
        (JITFunction, "__call__", call),
        (InterpretedFunction, "run", run),
        (InterpretedFunction, "__call__", call),
        (interpreter, "interpreter_semantic", semantic),
        (interpreter, "interpreter_builder", semantic.builder),
        (Autotuner, "_bench", bench),
        (triton.testing, "do_bench", do_bench),
        (driver, "_active", stand_in),
    ]
    with ExitStack() as undo:
        for row in rows:
            undo.enter_context(patch.object(*row))
        yield

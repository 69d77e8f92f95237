"""Builder of Triton's interpreter: computes on NumPy arrays, checks each access and counts what the kernel does.

Triton's own interpreter computes bfloat16 on its bit patterns. This builder computes it in float32 and rounds to
nearest even, as a GPU does.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np

from gpututor.devices.virtual.triton_kernels import triton_private
from gpututor.devices.virtual.triton_kernels.accesses import AccessKind, Memory
from gpututor.devices.virtual.triton_kernels.triton_private import InterpreterBuilder, TensorHandle, native, tl

_SPECIAL = frozenset({np.exp, np.exp2, np.log, np.log2, np.sin, np.cos, np.sqrt})
"""Functions of the special function units."""
_COMPARISONS = frozenset({np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal})
_FLOATS = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def widen(bits: Any) -> Any:
    """Return bfloat16 bit patterns as float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: Any) -> Any:
    """Return float32 values as bfloat16 bit patterns, rounded to nearest even; a NaN stays one."""
    values = np.asarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def _like(values: Any, pointers: Any) -> Any:
    """Return values with the shape of the pointers, contiguous in memory."""
    if values.shape != pointers.shape:
        values = np.broadcast_to(values, pointers.shape)
    return np.ascontiguousarray(values)


class Counts:
    """Arithmetic of a launch."""

    def __init__(self) -> None:
        self.plain: Counter[str] = Counter()
        """Floating-point operations by dtype, without those of `tl.dot`."""
        self.integer = 0
        self.special = 0
        self.dot: Counter[tuple[str, str, tuple[int, int, int]]] = Counter()
        """FLOPs of `tl.dot` by dtype, precision and shape (M, N, K)."""
        self.largest_elements = 0
        """Elements of the largest block with values."""
        self.tile_bytes = 0
        """Bytes of the largest pair of operands of `tl.dot`, which use shared memory."""


class KernelBuilder(InterpreterBuilder):  # type: ignore[misc]
    """Triton's builder, with the memory and the counts of the current launch."""

    def __init__(self) -> None:
        super().__init__()
        # As on a GPU; by default the interpreter checks every integer sum for overflow.
        self.options = triton_private.InterpreterOptions(sanitize_overflow=False)
        self.codegen_fns["min_dot_size"] = triton_private.least_dot
        self.memory = Memory("", [], 0)
        self.counts = Counts()
        self.file = ""
        """The kernel's file, whose lines are reported."""
        self.is_trial = False
        """True if stores do nothing, as for `kernel.warmup`."""

    def place(self) -> tuple[str, int | None]:
        """Return the line of the kernel that runs."""
        frame: Any = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                return self.file, frame.f_lineno
            frame = frame.f_back
        return self.file, None

    def get_bf16(self, value: float) -> Any:
        return TensorHandle(narrow(np.array([value], dtype=np.float32)), tl.bfloat16)

    # Memory.

    def _host(self, kind: AccessKind, pointers: Any, mask: Any) -> Any:
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        return self.memory.access(kind, pointers.data, mask, self.place(), size)

    def create_masked_load(
        self, ptrs: Any, mask: Any, other: Any, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Any:
        on = mask if isinstance(mask, np.ndarray) else mask.data
        kind = ptrs.get_element_ty()
        dtype = triton_private.np_dtype_of(kind)
        host = self._host("load", ptrs, on)
        fill = np.zeros(host.shape, dtype=dtype) if other is None else _like(other.data, host)
        self._note_size(host.size)
        return TensorHandle(native.load(host, _like(on, host), fill, dtype), kind)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, cache_modifier: Any, eviction_policy: Any) -> Any:
        on = mask if isinstance(mask, np.ndarray) else mask.data
        host = self._host("store", ptrs, on)
        if self.memory.locks and ptrs.data.size == 1:
            self.memory.locks.discard(int(ptrs.data.reshape(-1)[0]))
        if self.is_trial:
            return None
        return native.store(host, _like(value.data, host), _like(on, host))

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        host = self._host("atomic", ptr, np.ones(ptr.data.shape, dtype=bool))
        if self.is_trial:
            return cmp
        pointers = TensorHandle(host, ptr.dtype)
        result = super().create_atomic_cas(pointers, cmp, val, sem, scope)
        if host.size == 1 and result.data.reshape(-1)[0] == cmp.data.reshape(-1)[0]:
            self.memory.locks.add(int(ptr.data.reshape(-1)[0]))
        return result

    def create_atomic_rmw(self, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        host = self._host("atomic", ptr, mask.data)
        if self.is_trial:
            return val
        if self.memory.locks and host.size == 1:
            self.memory.locks.discard(int(ptr.data.reshape(-1)[0]))
        return super().create_atomic_rmw(rmwOp, TensorHandle(host, ptr.dtype), val, mask, sem, scope)

    # Arithmetic.

    def _note_size(self, elements: int) -> None:
        if elements > self.counts.largest_elements:
            self.counts.largest_elements = elements

    def _note(self, scalar: Any, elements: int, op: Any = None) -> None:
        """Count an elementwise operation on blocks."""
        if elements < 2:
            return
        self._note_size(elements)
        dtype = _FLOATS.get(scalar.name)
        if dtype is None:
            self.counts.integer += elements
        elif op in _SPECIAL:
            self.counts.special += elements
        else:
            self.counts.plain[dtype] += elements

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        scalar = lhs.dtype.scalar
        if scalar.name != "bf16":
            out = super().binary_op(lhs, rhs, op)
        else:
            values = op(widen(lhs.data), widen(rhs.data))
            out = TensorHandle(values if op in _COMPARISONS else narrow(values), scalar)
        self._note(scalar, out.data.size, op)
        return out

    def unary_op(self, arg: Any, op: Any) -> Any:
        scalar = arg.dtype.scalar
        self._note(scalar, arg.data.size, op)
        if scalar.name == "bf16":
            return TensorHandle(narrow(op(widen(arg.data))), scalar)
        return super().unary_op(arg, op)

    def create_rsqrt(self, arg: Any) -> Any:
        self._note(arg.dtype.scalar, arg.data.size, np.sqrt)
        return super().create_rsqrt(arg)

    def create_erf(self, arg: Any) -> Any:
        self._note(arg.dtype.scalar, 8 * arg.data.size)
        return super().create_erf(arg)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        scalar = other.dtype.scalar
        self._note(scalar, other.data.size)
        if scalar.name == "bf16" and op is np.clip:
            return TensorHandle(narrow(op(widen(lhs.data), widen(rhs.data), widen(other.data))), scalar)
        return super().ternary_op(lhs, rhs, other, op)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        self._note(z.dtype.scalar, 2 * z.data.size)
        if z.dtype.scalar.name == "bf16":
            return TensorHandle(narrow(widen(x.data) * widen(y.data) + widen(z.data)), z.dtype.scalar)
        return super().create_fma(x, y, z)

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        name = a.dtype.scalar.name
        *batch, m, k = a.data.shape
        n = b.data.shape[-1]
        dtype = _FLOATS.get(name, "float8_e4m3fn" if name.startswith("fp8") else "int8")
        self.counts.dot[dtype, str(input_precision), (m, n, k)] += 2 * m * n * k * int(np.prod(batch, dtype=np.int64))
        self.counts.tile_bytes = max(self.counts.tile_bytes, (m + n) * k * a.data.itemsize)
        self._note_size(m * n)
        if name == "bf16":
            a, b = (TensorHandle(widen(handle.data), tl.float32) for handle in (a, b))
        return super().create_dot(a, b, d, input_precision, max_num_imprecise_acc)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if "bf16" not in (source.name, target.name) or source.name == target.name:
            return super().cast_impl(src, dst_type)
        values = widen(src.data) if source.name == "bf16" else src.data.astype(np.float32)
        data = narrow(values) if target.name == "bf16" else values.astype(triton_private.np_dtype_of(target))
        return TensorHandle(data, target)


builder = KernelBuilder()
semantic = triton_private.semantic_of(builder)
_shapes: dict[tuple[int, ...], tuple[Any, Any]] = {}


def tensor_init(self: Any, handle: Any, type: Any) -> None:
    """Replace `tl.tensor.__init__`; the constants of each shape are made once."""
    self.handle = handle
    self.type = type
    self.dtype = type.scalar
    shape = tuple(type.shape) if type.is_block() else ()
    known = _shapes.get(shape)
    if known is None:
        known = _shapes[shape] = (
            triton_private.tl.tuple([triton_private.constexpr(size) for size in shape]),
            triton_private.constexpr(int(np.prod(shape, dtype=np.int64))),
        )
    self.shape, self.numel = known


def reduce_with(own: Any) -> Any:
    """Wrap the interpreter's `tl.reduce`: count operations, and reduce bfloat16 in float32."""

    def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **kwargs: Any) -> Any:
        several = isinstance(input, tuple)
        inputs = input if several else (input,)
        for operand in inputs:
            builder._note(operand.dtype, operand.handle.data.size)
        if not any(operand.dtype.name == "bf16" for operand in inputs):
            return own(input, axis, combine_fn, keep_dims, **kwargs)
        types = [operand.dtype for operand in inputs]
        wide = tuple(semantic.cast(part, tl.float32) if part.dtype.name == "bf16" else part for part in inputs)
        out = own(wide if several else wide[0], axis, combine_fn, keep_dims, **kwargs)
        outs = out if several else (out,)
        cast = tuple(semantic.cast(operand, kind) for operand, kind in zip(outs, types, strict=True))
        return cast if several else cast[0]

    return reduce

"""Each operator that PyTorch's own samples dispatch has a price."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual.cost.cpu import cpu_price_s, cpu_spec
from gpututor.devices.virtual.cost.kernel import price
from gpututor.devices.virtual.cost.memory_traffic import Tensor
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of, tables
from gpututor.hardware.gpus import gpu_spec

_NAMES_IN_LISTS = {"mm", "addmm", "bmm", "convolution", "native_batch_norm", "native_layer_norm", "_softmax", "cumsum"}


def _plain(value: Any) -> list[Tensor]:
    tensors = [tensor for tensor in pytree.tree_leaves(value) if isinstance(tensor, torch.Tensor)]
    return [(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for tensor in tensors]


class _Dispatched(TorchDispatchMode):
    """Collects each operator with the shapes of its first call."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: dict[str, tuple[Any, list[Tensor], list[Tensor]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if str(func) not in self.seen:
            self.seen[str(func)] = (func, _plain((args, kwargs)), _plain(out))
        return out


def _dispatched() -> dict[str, tuple[Any, list[Tensor], list[Tensor]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

        mode = _Dispatched()
        for op in op_db:
            # Sparse tensors have no one shape of memory; the compiled ones need a real GPU.
            if torch.float32 not in op.dtypes or "sparse" in op.name or "jiterator" in op.name:
                continue
            sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)), None)
            if sample is None:
                continue
            with mode:
                out = op(sample.input, *sample.args, **sample.kwargs)
                used = [
                    tensor
                    for tensor in pytree.tree_leaves(out)
                    if isinstance(tensor, torch.Tensor) and tensor.requires_grad
                ]
                if used and op.supports_autograd:
                    torch.autograd.backward([item.abs().sum() for item in used])
    return mode.seen


_Seen = dict[str, tuple[Any, list[Tensor], list[Tensor]]]


@pytest.fixture(scope="module")
def seen() -> _Seen:
    return _dispatched()


def _with_types(tensors: list[Tensor], dtype: str) -> list[Tensor]:
    return [(shape, dtype) for shape, _ in tensors]


def _emptied(tensors: list[Tensor]) -> list[Tensor]:
    return [((*shape[:-1], 0) if shape else (), dtype) for shape, dtype in tensors]


@pytest.mark.long
def test_every_dtype_and_empty_tensors_have_a_price(seen: _Seen) -> None:
    changes: list[Callable[[list[Tensor]], list[Tensor]]] = [_emptied]
    for dtype in ("bool", "float8_e4m3fn", "complex64", "complex128", "bfloat16", "float64", "int64", "bits16"):
        changes.append(partial(_with_types, dtype=dtype))
    wrong = []
    for name, (_, inputs, outputs) in seen.items():
        for change in changes:
            ins, outs = change(inputs), change(outputs)
            for gpu in ("T4", "P100", "B200"):
                result = price(gpu_spec(gpu), name, ins, outs, tf32=True)
                if (
                    (result.seconds > 0) != (kind_of(name) != NO_COST)
                    or not result.seconds < 1
                    or not 0 <= result.fill <= 1
                ):
                    wrong.append((name, gpu, ins, outs))
            if not 0 < cpu_price_s(cpu_spec(), name, ins, outs) < 1:
                wrong.append((name, "CPU", ins, outs))
    assert wrong == []


@pytest.mark.long
def test_pricing_is_fast_enough_for_every_new_shape(seen: _Seen) -> None:
    # A bound on the work, not on the time: Python calls that one price makes.
    def calls(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> int:
        count = 0

        def counting(frame: Any, event: str, _: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(counting)
        try:
            price(gpu_spec("A100"), name, inputs, outputs)
        finally:
            sys.setprofile(None)
        return count

    for name, (_, inputs, outputs) in seen.items():
        price(gpu_spec("A100"), name, inputs, outputs)
        assert calls(name, inputs, outputs) < 60 + 10 * (len(inputs) + len(outputs)), name


@pytest.mark.long
def test_every_operator_of_op_db_has_a_price_and_views_have_none(seen: _Seen) -> None:
    assert len(seen) > 500
    assert {kind_of(name) for name in seen} >= {"matmul", "convolution", "pool", "fft", "linalg", "sort"}
    wrong = []
    for name, (func, inputs, outputs) in seen.items():
        result = price(gpu_spec("T4"), name, inputs, outputs)
        writes = any(
            argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments
        )
        is_view = not writes and any(argument.alias_info is not None for argument in func._schema.returns)
        if is_view and result.seconds != 0:
            wrong.append(f"{name} is a view and has a price")
        if kind_of(name) != NO_COST and not (math.isfinite(result.seconds) and 1e-6 < result.seconds < 1):
            wrong.append(f"{name} costs {result.seconds} s")
        if not 0 <= result.fill <= 1:
            wrong.append(f"{name} fills {result.fill}")
    assert wrong == []


def test_the_names_in_the_lists_are_operators_of_torch() -> None:
    listed = {name if name.endswith("__") else name.removesuffix("_") for name in tables()["operators"]}
    assert listed >= _NAMES_IN_LISTS
    known = {name.split("::")[1].split(".")[0].removesuffix("_") for name in torch._C._dispatch_get_all_op_names()}
    assert sorted(name for name in listed if name not in known) == []

"""PyTorch's own operator samples on a virtual GPU: float32 values and placement, forward and backward."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from gpututor.devices.virtual import host_tensor, is_virtual, virtual_gpu

# What they draw, or which of several right answers they give, is not the same twice.
_NO_VALUES = (
    *(
        "rand",
        "empty",
        "dropout",
        "bernoulli",
        "multinomial",
        "normal",
        "uniform",
        "exponential",
        "cauchy",
        "geometric",
    ),
    *("svd", "eig", "qr", "lu", "pca", "lobpcg", "rrelu", "alpha", "matrix_rank", "lstsq", "pinv", "householder"),
    *("ormqr", "cholesky"),
)
# Samples that mean something else on a device, not faults of the virtual GPU.
_OF_THE_CPU = {
    "as_strided.partial_views": "its samples are views into larger storages, which a move does not carry",
    "to": "its samples name the CPU as the target",
    "tensor_split": "its indices have to stay on the CPU, on CUDA too",
}
_EVERY = 8
"""The short test takes one operator in this many."""


def _operators() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    found = [op for op in op_db if torch.float32 in op.dtypes and "sparse" not in op.name]
    return [op for op in found if _name(op) not in _OF_THE_CPU and "jiterator" not in op.name]


def _name(op: Any) -> str:
    return str(op.name + ("." + op.variant_test_name if op.variant_test_name else ""))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [one for one in pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]


def _gradients(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    used = [one for one in outputs if one.requires_grad]
    wanted = [one for one in inputs if one.requires_grad]
    if not used or not wanted:
        return ()
    return torch.autograd.grad([one.abs().sum() for one in used], wanted, allow_unused=True)


def _compare(got: list[Any], expected: list[Any], values: bool) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        if other is None:
            assert one is None
            continue
        assert is_virtual(one), f"a result is on {one.device}"
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if values:
            torch.testing.assert_close(host_tensor(one), other.detach(), equal_nan=True)


def _fault(op: Any, sample: Any) -> str:
    """What is wrong with one sample on the virtual GPU; empty when all is right or the CPU itself refuses it."""
    arguments = (sample.input, list(sample.args), dict(sample.kwargs))
    try:
        expected = _tensors(op(sample.input, *sample.args, **sample.kwargs))
        # Adding zero gives memory to gradients that have none, which a mode would have to read.
        expected_gradients = [None if one is None else one + 0 for one in _gradients(expected, _tensors(arguments))]
    except (RuntimeError, TypeError, NotImplementedError):
        return ""

    def on_gpu(value: Any) -> Any:
        return (
            value.detach().to("cuda").requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value
        )

    values = not any(word in _name(op) for word in _NO_VALUES)
    try:
        with virtual_gpu(1):
            given, args, kwargs = pytree.tree_map(on_gpu, arguments)
            if "device" in kwargs:
                kwargs["device"] = "cuda"
            got = _tensors(op(given, *args, **kwargs))
            _compare(got, expected, values)
            _compare(list(_gradients(got, _tensors((given, args, kwargs)))), expected_gradients, values)
    except Exception as error:  # whatever it is, it is this operator's fault, and the others go on
        return f"{_name(op)}: {type(error).__name__}: {error}"
    return ""


def _faults(operators: list[Any], samples_each: int) -> list[str]:
    faults = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in operators:
            torch.manual_seed(0)
            samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
            found = [
                fault for _, sample in zip(range(samples_each), samples, strict=False) if (fault := _fault(op, sample))
            ]
            faults += found[:1]
    return faults


def test_a_draw_of_operators_is_right_in_value_and_placement() -> None:
    operators = _operators()
    drawn = random.Random(2).sample(operators, len(operators) // _EVERY)
    assert len(drawn) > 70
    assert _faults(drawn, 2) == []


@pytest.mark.long
def test_every_operator_is_right_in_value_and_placement() -> None:
    operators = _operators()
    assert len(operators) > 600
    assert _faults(operators, 3) == []

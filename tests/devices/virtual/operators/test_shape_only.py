"""PyTorch's own operator samples without values give the same shapes, dtypes and memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import NoValues, virtual_gpu
from gpututor.devices.virtual.operator_facts import tables
from tests.support import operator_samples as samples

_EVERY = 16
_PARTS = 4
_NOT_WITH_VALUES = (
    *("jiterator", "sparse.mm.reduce", "sparse.sampled_addmm"),
    *("_flash_attention_forward", "_efficient_attention_forward"),
)


def _listed() -> dict[str, str]:
    return {name: reason for reason, names in tables()["needs_values"].items() for name in names}


def _operators() -> list[Any]:
    result = samples.operators(torch.float32)
    return [op for op in result if not any(word in samples.name_of(op) for word in _NOT_WITH_VALUES)]


def _seen(op: Any, sample: Any, values: bool) -> Any:
    arguments = (sample.input, list(sample.args), dict(sample.kwargs))
    with virtual_gpu(values=values):
        outputs, gradients = samples.results(op, samples.on_gpu(op, arguments))
        described = [
            None if tensor is None else (tensor.shape, tensor.dtype, tensor.device.type)
            for tensor in outputs + gradients
        ]
        return described, torch.cuda.max_memory_allocated()


def _differences(operators: Iterable[Any], samples_each: int) -> dict[str, str]:
    """Return the differences without values, by the operator's name."""
    results = {}
    for op in operators:
        torch.manual_seed(0)
        differentiable = op.supports_autograd and torch.float32 in op.backward_dtypesIfCUDA
        for sample in islice(op.sample_inputs("cpu", torch.float32, requires_grad=differentiable), samples_each):
            expected = _seen(op, sample, values=True)
            try:
                got = _seen(op, sample, values=False)
            except (NoValues, NotImplementedError) as error:
                results[samples.name_of(op)] = str(error)
                break
            if got != expected:
                results[samples.name_of(op)] = f"other: {got} and not {expected}"
                break
    return results


def _check(operators: list[Any], samples_each: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = _differences(operators, samples_each)
    listed = _listed()
    assert {name: said for name, said in result.items() if name not in listed} == {}
    for name, said in result.items():
        assert "needs values" in said or "without values" in said, name


def test_sampled_operators_have_the_same_shapes_and_memory() -> None:
    operators = _operators()[::_EVERY]
    assert len(operators) > 30
    _check(operators, 1)


@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_operator_has_the_same_shapes_and_memory(part: int) -> None:
    _check(_operators()[part::_PARTS], 3)


def test_the_operators_that_need_values_are_few_and_have_a_reason() -> None:
    listed, names = _listed(), {samples.name_of(op) for op in _operators()}
    assert set(listed) <= names
    assert len(listed) / len(names) <= 0.03
    assert all(listed.values())


def test_each_operator_that_is_listed_needs_values() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = _differences([op for op in _operators() if samples.name_of(op) in _listed()], 40)
    assert set(result) == set(_listed())

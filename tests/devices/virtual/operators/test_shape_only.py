"""Operators and programs without values give the same shapes, dtypes, kernels, times and memory."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import NoValues, virtual_gpu
from gpututor.devices.virtual.operator_facts import tables
from tests.support import operator_samples as samples
from tests.support.layer_samples import LAYERS
from tests.support.shape_only_programs import PROGRAMS, seen_of
from tests.support.virtual_gpus import loss_of

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


_BY_VALUES = {"CTCLoss", "AdaptiveLogSoftmaxWithLoss", "GaussianNLLLoss"}
"""They ask tensors for values: lengths, which class is in which part, and whether a variance is negative."""


def _train_layer(kind: str, *, train: bool = True, dtype: torch.dtype | None = None, autocast: Any = None) -> None:
    """Run a layer twice, with optimizer steps if it has parameters; in evaluation mode unless `train`."""
    layer, values = LAYERS[kind]()
    layer.cuda().train(train)
    inputs = [tensor.cuda().requires_grad_(tensor.is_floating_point()) for tensor in values]
    if dtype is not None:
        layer.to(dtype)
        inputs = [
            tensor.detach().to(dtype).requires_grad_() if tensor.is_floating_point() else tensor for tensor in inputs
        ]
    parameters = [*layer.parameters()]
    optimiser = torch.optim.AdamW(parameters) if parameters else None
    for _ in range(2):
        with torch.autocast("cuda", autocast) if autocast is not None else contextlib.nullcontext():
            loss = loss_of(layer(*inputs))
        if not (train and loss.requires_grad):
            continue
        loss.backward()
        if optimiser is not None:
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            optimiser.zero_grad()


def _compare(program: Callable[[], object], **machine: Any) -> list[Any]:
    with_values = seen_of(program, values=True, **machine)
    without = seen_of(program, values=False, **machine)
    assert without["events"] == with_values["events"]
    assert without == with_values
    events: list[Any] = without["events"]
    return events


@pytest.mark.parametrize(
    "training", [True, pytest.param(False, marks=pytest.mark.long)], ids=["training", "evaluating"]
)
@pytest.mark.parametrize("kind", sorted(set(LAYERS) - _BY_VALUES))
def test_a_layer_has_the_same_trace_and_memory_as_with_values(kind: str, training: bool) -> None:
    events = _compare(lambda: _train_layer(kind, train=training))
    assert any(event.kind == "kernel" and event.device == "cuda:0" for event in events)


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize(
    "kind", ["Linear", "Conv2d same", "BatchNorm2d", "LayerNorm", "GroupNorm", "TransformerEncoder"]
)
def test_a_layer_in_half_precision_has_the_same_trace(kind: str, dtype: torch.dtype) -> None:
    _compare(lambda: _train_layer(kind, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize("kind", ["Linear", "Conv2d same", "BatchNorm2d", "LSTM", "GroupNorm", "TransformerEncoder"])
def test_a_layer_under_autocast_has_the_same_trace(kind: str, dtype: torch.dtype) -> None:
    _compare(lambda: _train_layer(kind, autocast=dtype))


@pytest.mark.filterwarnings("ignore:torch.compile runs eagerly")
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_same_trace_and_memory_as_with_values(name: str) -> None:
    assert _compare(PROGRAMS[name])


def test_replicas_on_two_gpus_have_the_same_trace() -> None:
    def replicas() -> None:
        model = nn.DataParallel(nn.Linear(4, 4).cuda())
        model(torch.ones(6, 4, device="cuda")).sum().backward()

    seen = [sorted(map(repr, seen_of(replicas, values=values, count=2)["peaks"])) for values in (True, False)]
    assert seen[0] == seen[1]


def test_out_of_memory_occurs_at_the_same_operation() -> None:
    def too_large() -> None:
        kept = [torch.ones(1 << 19, device="cuda") for _ in range(20)]
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 32\.00 MiB"):
            torch.cat(kept[4:])
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 64\.00 MiB"):
            kept[0].expand(32, -1) + 1

    _compare(too_large, memory_bytes=64 << 20)

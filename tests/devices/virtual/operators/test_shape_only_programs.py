"""Programs without values give the same kernels, times and memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.layer_samples import LAYERS
from tests.support.shape_only_programs import PROGRAMS, seen_of
from tests.support.virtual_gpus import loss_of

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

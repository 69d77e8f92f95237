"""Calls that make the host wait for the GPU, as `torch.cuda.set_sync_debug_mode` reports."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.fidelity.program import gives

COPY = "aten/src/ATen/native/cuda/Copy.cu"
NOTES = "docs/source/notes/cuda.rst: asynchronous execution"
DEBUG = "torch/cuda/__init__.py: set_sync_debug_mode"


def row() -> torch.Tensor:
    return torch.zeros(4, device="cuda")


@gives("cuda:0", waits=0, source=NOTES)
def arithmetic_does_not_wait() -> Any:
    x = row()
    return ((x + 1) @ x).device


@gives("cuda:0", waits=0, source=NOTES)
def a_backward_pass_and_a_step_do_not_wait() -> Any:
    layer = nn.Linear(4, 1, device="cuda")
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(row()).sum().backward()
    sgd.step()
    sgd.zero_grad()
    return layer.weight.device


@gives(0.0, waits=1, source="aten/src/ATen/native/cuda/CUDAScalar.cu")
def item_waits() -> Any:
    return row().sum().item()


@gives(False, waits=1, source="aten/src/ATen/native/cuda/CUDAScalar.cu")
def a_condition_waits() -> Any:
    return bool(row().any())


@gives("cpu", waits=1, source=COPY)
def a_copy_to_the_host_waits() -> Any:
    return row().cpu().device


@gives([0.0] * 4, waits=1, source=COPY)
def tolist_waits_once() -> Any:
    return row().tolist()


@gives((0, 1), waits=1, source="aten/src/ATen/native/cuda/Nonzero.cu")
def nonzero_waits_for_its_size() -> Any:
    return tuple(row().nonzero().shape)


@gives((0,), waits=1, source="aten/src/ATen/native/cuda/IndexKernel.cpp: masked_select")
def a_mask_waits_for_its_count() -> Any:
    x = row()
    return tuple(x[x > 0].shape)


@gives("cuda:0", waits=1, source="aten/src/ATen/native/IndexingUtils.h: canDispatchToMaskedFill")
def only_a_tensor_on_the_gpu_put_at_a_mask_waits() -> Any:
    x, value = row(), torch.ones((), device="cuda")
    x[x > 0] = 1.0
    x[x > 0] = torch.ones(())
    x[x > 0] = value
    return x.device


@gives("cuda:0", waits=0, source="torch/_torch_docs.py: where")
def where_with_three_arguments_does_not_wait() -> Any:
    x = row()
    return torch.where(x > 0, x, 1.0).device


@gives("cuda:0", waits=0, source=COPY)
def a_pinned_copy_that_may_overlap_does_not_wait() -> Any:
    return torch.ones(4).pin_memory().to("cuda", non_blocking=True).device


@gives(True, waits=1, source="aten/src/ATen/native/cuda/Equal.cpp")
def torch_equal_waits() -> Any:
    return torch.equal(row(), row())


@gives(None, waits=0, source=NOTES)
def views_and_shapes_do_not_wait() -> Any:
    x = row()
    assert x.view(2, 2).t().shape == (2, 2)
    assert x.numel() == len(x) == 4

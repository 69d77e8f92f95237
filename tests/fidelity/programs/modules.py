"""Modules and optimisers: what moves, what stays, and what mixes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.fidelity.program import gives, on

MODULE = "torch/nn/modules/module.py: _apply"


@gives((True, True, "cuda:0"), source=MODULE)
def a_module_moves_in_place() -> Any:
    layer = nn.Linear(2, 1)
    weight = layer.weight
    moved = layer.cuda()
    return moved is layer, layer.weight is weight, weight.device


@gives(("cuda:1", "float16", "int64"), source=MODULE)
def to_with_a_dtype_leaves_whole_numbers_alone() -> Any:
    norm = nn.BatchNorm1d(2).to("cuda:1", torch.float16)
    assert norm.running_mean is not None
    assert norm.num_batches_tracked is not None
    return norm.running_mean.device, norm.weight.dtype, norm.num_batches_tracked.dtype


class WithPlainTensor(nn.Module):
    """A tensor as a buffer and a tensor as a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("known", torch.ones(1))
        self.forgotten = torch.ones(1)


@gives(("cuda:0", "cpu"), source=MODULE)
def a_plain_attribute_is_left_behind() -> Any:
    module = WithPlainTensor().cuda()
    return module.known.device, module.forgotten.device


@gives((on("cuda:0", "float32", [[1.0, 1.0]]), "cuda:0"), source=MODULE)
def gradients_move_with_their_parameters() -> Any:
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    layer.cuda()
    assert layer.bias.grad is not None
    return layer.weight.grad, layer.bias.grad.device


@gives((True, True), source="torch/optim/optimizer.py")
def an_optimiser_made_before_the_move_still_steps() -> Any:
    layer = nn.Linear(2, 1)
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer.cuda()
    before = layer.weight.detach().clone()
    layer(torch.ones(1, 2, device="cuda")).sum().backward()
    sgd.step()
    return layer.weight.is_cuda, torch.allclose(layer.weight, before - 0.1)


@gives(["cuda:0", "cuda:0", "cpu"], source="torch/optim/adam.py: _init_group")
def adams_state_is_on_the_gpu_and_its_step_on_the_cpu() -> Any:
    w = torch.ones(2, device="cuda", requires_grad=True)
    adam = torch.optim.Adam([w])
    w.sum().backward()
    adam.step()
    return [str(adam.state[w][name].device) for name in ("exp_avg", "exp_avg_sq", "step")]


@gives("cuda:0", source="torch/optim/adam.py: _init_group")
def with_fused_the_step_is_on_the_gpu_too() -> Any:
    w = torch.ones(2, device="cuda", requires_grad=True)
    adam = torch.optim.Adam([w], fused=True)
    w.sum().backward()
    adam.step()
    return adam.state[w]["step"].device


@gives((True, True, True), source="torch/optim/_multi_tensor")
def foreach_fused_and_plain_adam_agree() -> Any:
    results = []
    hows: list[dict[str, Any]] = [{"foreach": False}, {"foreach": True}, {"fused": True}]
    for how in hows:
        w = torch.tensor([1.0, -2.0], device="cuda", requires_grad=True)
        adam = torch.optim.Adam([w], lr=0.1, **how)
        for _ in range(3):
            adam.zero_grad()
            (w * w).sum().backward()
            adam.step()
        results.append(w.detach().clone())
    return tuple(torch.allclose(weight, results[0]) for weight in results)


@gives(("cuda:0", True), source="torch/nn/utils/clip_grad.py")
def clipping_gives_the_norm_on_the_gpu() -> Any:
    w = torch.tensor([3.0, 4.0], device="cuda", requires_grad=True)
    (w * w).sum().backward()
    norm = nn.utils.clip_grad_norm_([w], 1.0)
    assert w.grad is not None
    return norm.device, torch.allclose(w.grad.norm(), torch.ones((), device="cuda"))


@gives(on("cuda:0", "float32", [0.5, 0.5]), source="torch/nn/functional.py")
def a_softmax_on_the_gpu() -> Any:
    return F.softmax(torch.zeros(2, device="cuda"), dim=0)


@gives(("cuda:0", (1, 3, 2), "cuda:0"), source="torch/nn/modules/rnn.py")
def an_lstm_makes_its_first_state_on_the_gpu() -> Any:
    out, (hidden, _) = nn.LSTM(4, 2, batch_first=True).cuda()(torch.ones(1, 3, 4, device="cuda"))
    return out.device, tuple(out.shape), hidden.device


@gives(("float16", "float32", "float32", "float16"), source="docs/source/amp.rst: op-specific behavior")
def autocast_chooses_a_dtype_for_each_operator() -> Any:
    x = torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        product = x @ x
        return product.dtype, product.softmax(0).dtype, (product + x).dtype, nn.Linear(2, 2).cuda()(x).dtype


@gives("bfloat16", source="docs/source/amp.rst")
def autocast_in_bfloat16() -> Any:
    x = torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return (x @ x).dtype


@gives((65536.0, 32768.0, True), source="torch/amp/grad_scaler.py")
def a_step_with_an_infinite_gradient_is_skipped_and_the_scale_halved() -> Any:
    w = torch.ones(1, device="cuda", requires_grad=True)
    sgd, scaler = torch.optim.SGD([w], lr=1.0), torch.amp.GradScaler("cuda")
    scaler.scale(w.sum() * float("inf")).backward()
    before = scaler.get_scale()
    scaler.step(sgd)
    scaler.update()
    return before, scaler.get_scale(), w.item() == 1.0


@gives((["cuda:0", "cuda:1"], "cuda:0"), source="torch/nn/parallel/data_parallel.py")
def data_parallel_splits_the_batch_over_the_gpus() -> Any:
    devices: list[str] = []

    class Noting(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            devices.append(str(x.device))
            return super().forward(x)

    out = nn.DataParallel(Noting(2, 1).cuda(), device_ids=[0, 1])(torch.ones(4, 2, device="cuda"))
    return sorted(devices), out.device


@gives(("float32", "cuda:0"), source="torch/nn/modules/sparse.py: Embedding")
def an_embedding_looks_up_on_the_gpu() -> Any:
    rows = nn.Embedding(4, 2).cuda()(torch.tensor([1, 3], device="cuda"))
    return rows.dtype, rows.device


@gives(True, source="docs/source/notes/cuda.rst: device-agnostic code")
def the_device_of_a_module_is_that_of_its_parameters() -> Any:
    layer = nn.Linear(2, 2).to("cuda")
    return next(layer.parameters()).device == torch.device("cuda:0")

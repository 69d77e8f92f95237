"""Each kind of layer gives the CPU's results on the device."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import VirtualMachine
from tests.support.layer_samples import LAYERS
from tests.support.virtual_gpus import loss_of, tensors_in

GPU = torch.device("cuda:0")


def _inputs(values: tuple[Any, ...], device: str) -> list[torch.Tensor]:
    moved = [tensor.to(device) if device != "cpu" else tensor.clone() for tensor in values]
    return [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in moved]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_gives_the_cpus_results_and_gradients(two_gpus: VirtualMachine, kind: str, training: bool) -> None:
    on_host, values = LAYERS[kind]()
    on_host.train(training)
    on_gpu = copy.deepcopy(on_host).cuda()
    host_inputs, gpu_inputs = _inputs(values, "cpu"), _inputs(values, "cuda")
    expected, got = on_host(*host_inputs), on_gpu(*gpu_inputs)
    for tensor, other in zip(tensors_in(expected), tensors_in(got), strict=True):
        assert other.device == GPU
        assert other.stride() == tensor.stride() or not isinstance(on_gpu, nn.RNNBase)
        torch.testing.assert_close(other.detach().cpu(), tensor.detach())
    if not loss_of(expected).requires_grad:
        return
    loss_of(expected).backward()
    if isinstance(on_gpu, nn.RNNBase) and not training:
        with pytest.raises(RuntimeError, match="cudnn RNN backward can only be called in training mode"):
            loss_of(got).backward()
        return
    loss_of(got).backward()
    pairs = [*zip(host_inputs, gpu_inputs, strict=True)]
    pairs += [*zip(on_host.parameters(), on_gpu.parameters(), strict=True)]
    for item, other in pairs:
        assert other.device == GPU
        assert (item.grad is None) is (other.grad is None)
        if item.grad is not None and other.grad is not None:
            assert other.grad.device == GPU
            torch.testing.assert_close(other.grad.cpu(), item.grad, rtol=1e-4, atol=1e-5)
    for buffer, other in zip(on_host.buffers(), on_gpu.buffers(), strict=True):
        assert other.device == GPU
        torch.testing.assert_close(other.cpu(), buffer)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_moves_both_ways_and_changes_dtype(two_gpus: VirtualMachine, kind: str) -> None:
    layer, _ = LAYERS[kind]()
    before = [*layer.parameters()]
    dtypes = {torch.float64: layer.double, torch.float16: layer.half, torch.bfloat16: layer.bfloat16}
    for device in ("cuda:1", "cpu", "cuda:0"):
        layer.to(device)
        for dtype, convert in dtypes.items():
            convert()
            for tensor in (*layer.parameters(), *layer.buffers()):
                assert tensor.device == torch.device(device)
                assert not tensor.is_floating_point() or tensor.dtype is dtype
    assert all(parameter is other for parameter, other in zip(before, layer.parameters(), strict=True))
    assert all(isinstance(parameter, nn.Parameter) for parameter in layer.parameters())

"""Recurrent layers: one operator of cuDNN each way, with the CPU's values; lengths of sequences on the host."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import captured, gradient


def _kernels(recorder: Recorder) -> list[str]:
    return [event.name for event in recorder.complete() if event.kind is Kind.KERNEL]


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_a_training_step_is_one_operator_each_way(recorder: Recorder, layer: str) -> None:
    module, x = getattr(nn, layer)(3, 4, 2, device="cuda"), torch.ones(5, 2, 3, device="cuda")
    module(x)[0].backward(torch.ones(5, 2, 4, device="cuda"))
    names = _kernels(recorder)
    assert [name for name in names if "rnn" in name] == ["aten::_cudnn_rnn", "aten::_cudnn_rnn_backward"]
    assert not {"aten::addmm", "aten::mm", "aten::sigmoid", "aten::tanh"} & set(names)


def test_layers_without_cudnn_or_on_the_cpu_are_composed_of_other_operators(recorder: Recorder) -> None:
    layer, x = nn.GRU(3, 4, device="cuda"), torch.ones(5, 2, 3, device="cuda")
    with torch.backends.cudnn.flags(enabled=False):
        layer(x)
    nn.LSTM(3, 4)(torch.ones(5, 2, 3))
    assert "aten::_cudnn_rnn" not in _kernels(recorder)
    assert "aten::addmm" in _kernels(recorder)


def test_training_saves_more_than_inference(two_gpus: VirtualMachine) -> None:
    layer, x = nn.LSTM(16, 32, device="cuda"), torch.ones(50, 8, 16, device="cuda")
    before = torch.cuda.memory_allocated()
    layer(x)
    assert torch.cuda.memory_allocated() == before
    results = layer(x)
    training = torch.cuda.memory_allocated() - before
    del results
    results = layer.eval()(x)
    # An H200 keeps 5.1 times the output for an LSTM's backward pass.
    assert training - (torch.cuda.memory_allocated() - before) == 5 * 50 * 8 * 32 * 4
    assert len(results) == 2


def test_gradients_run_twice_but_have_no_gradients_of_their_own(two_gpus: VirtualMachine) -> None:
    layer, x = nn.LSTM(3, 4).cuda(), torch.ones(5, 2, 3, device="cuda", requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="'_cudnn_rnn_backward' is not implemented"):
        gradient.sum().backward()
    with torch.backends.cudnn.flags(enabled=False):
        out = layer(x)[0].sum()
    (gradient,) = torch.autograd.grad(out, x, create_graph=True)
    gradient.sum().backward()
    assert x.grad is not None
    out = nn.GRU(3, 4).cuda()(torch.ones(5, 2, 3, device="cuda"))[0].sum()
    out.backward(retain_graph=True)
    out.backward()


def test_dropout_drops_the_same_values_forward_and_backward(two_gpus: VirtualMachine) -> None:
    layer = nn.RNN(1, 64, 2, dropout=0.5, device="cuda")
    weight = layer.get_parameter("weight_ih_l1")
    seen = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        x = torch.ones(1, 1, 1, device="cuda", requires_grad=True)
        out = layer(x)[0]
        (gradient,) = torch.autograd.grad(out.sum(), weight, retain_graph=True)
        (again,) = torch.autograd.grad(out.sum(), weight)
        assert torch.equal(gradient, again)
        dropped = gradient.eq(0).all(0)
        assert 8 < int(dropped.sum()) < 56
        seen.append((out.detach(), dropped))
    assert torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[0][1], seen[1][1])
    assert not torch.equal(seen[0][1], seen[2][1])


def test_half_precision_rounds_once(two_gpus: VirtualMachine) -> None:
    layer, x = nn.LSTM(8, 8).half(), torch.randn(6, 2, 8, dtype=torch.float16)
    expected = copy.deepcopy(layer).float()(x.float())[0].half()
    assert torch.equal(layer.cuda()(x.cuda())[0].cpu(), expected)


def test_a_graph_with_a_recurrent_layer_is_replayed_on_new_values(two_gpus: VirtualMachine) -> None:
    layer, x = nn.GRU(3, 4).cuda(), torch.zeros(5, 2, 3, device="cuda")
    with torch.no_grad():
        layer(x)
        graph, (out, _) = captured(lambda: layer(x))
        x.copy_(torch.randn(5, 2, 3))
        graph.replay()
        torch.testing.assert_close(out, layer(x)[0])


@pytest.mark.parametrize("values", [True, False])
def test_a_long_layer_takes_its_steps_one_after_another(values: bool) -> None:
    with virtual_gpu(1, "H200", values=values):
        layer = nn.LSTM(128, 256, device="cuda")
        times = []
        for steps in (100, 200, 400):
            x = torch.ones(steps, 8, 128, device="cuda")
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            layer(x)
            start.record()
            layer(x)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        assert times[2] - times[1] == pytest.approx(2 * (times[1] - times[0]), rel=0.1)


GPU = torch.device("cuda:0")


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_ctc_loss_takes_targets_and_lengths_from_any_device(two_gpus: VirtualMachine, where: str) -> None:
    scores = torch.randn(5, 2, 4).log_softmax(2)
    on_gpu = scores.cuda().requires_grad_()
    targets, lengths = torch.tensor([[1, 2], [3, 1]]), (torch.tensor([5, 4]), torch.tensor([2, 1]))
    expected = nn.CTCLoss()(scores, targets, *lengths)
    loss = nn.CTCLoss()(on_gpu, targets.to(where), lengths[0].to(where), target_lengths=lengths[1].to(where))
    loss.backward()
    assert loss.device == GPU
    torch.testing.assert_close(loss.detach().cpu(), expected)
    assert gradient(on_gpu).device == GPU


def test_packing_refuses_lengths_on_the_gpu_in_cudas_words(two_gpus: VirtualMachine) -> None:
    padded, lengths = torch.randn(3, 2, 4, device="cuda"), torch.tensor([3, 1], device="cuda")
    with pytest.raises(RuntimeError) as caught:
        pack_padded_sequence(padded, lengths)
    assert str(caught.value) == "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"


@pytest.mark.parametrize("values", [True, False])
def test_weights_on_the_device_are_copied_to_one_buffer(values: bool) -> None:
    with virtual_gpu(1, recorder=Recorder([__file__]), values=values) as machine:
        layers = nn.LSTM(4, 8, 2, bidirectional=True)
        before = [weight.detach().clone() for weight in layers.parameters()]
        parameters = list(layers.parameters())
        layers.to("cuda")
        assert sum(event.name == "aten::copy_" for event in machine.recorder.trace) == len(before) == 16
        assert len({weight.untyped_storage() for weight in layers.parameters()}) == 1
        assert torch.cuda.memory_allocated() == -(-sum(weight.nbytes for weight in before) // 512) * 512
        assert all(old is new for old, new in zip(parameters, layers.parameters(), strict=True))
        if values:
            pairs = zip(before, layers.parameters(), strict=True)
            assert all(torch.equal(weight, flat.cpu()) for weight, flat in pairs)
        layers(torch.randn(5, 2, 4, device="cuda"))[0].sum().backward()
        assert layers.weight_ih_l0.grad is not None


def test_weights_are_not_flattened_without_cudnn_or_in_bfloat16(two_gpus: VirtualMachine) -> None:
    for layers in (nn.GRU(2, 3).to(torch.bfloat16).cuda(), nn.GRU(2, 3)):
        with torch.backends.cudnn.flags(enabled=layers.weight_ih_l0.is_cuda):
            assert len({weight.untyped_storage() for weight in layers.cuda().parameters()}) == 4


def test_a_copied_and_a_loaded_module_work(two_gpus: VirtualMachine, tmp_path: Path) -> None:
    layers, x = nn.GRU(2, 3, device="cuda"), torch.ones(4, 1, 2, device="cuda")
    expected = layers(x)[0]
    assert torch.equal(copy.deepcopy(layers)(x)[0], expected)
    torch.save(layers.state_dict(), tmp_path / "weights.pt")
    other = nn.GRU(2, 3, device="cuda")
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert torch.equal(other(x)[0], expected)


def test_scattered_weights_are_compacted_at_each_call_with_a_warning(two_gpus: VirtualMachine) -> None:
    layer: Any = torch.nn.LSTM(4, 5).cuda()
    x = torch.randn(2, 3, 4, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x)
    layer.weight_hh_l0.data = layer.weight_hh_l0.detach().clone()
    with pytest.warns(UserWarning, match="not part of single contiguous chunk"):
        layer(x)
    layer.flatten_parameters()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x)


@pytest.mark.parametrize("name", ["hx", "cx"])
def test_a_state_that_is_not_contiguous_is_refused_as_by_cudnn(two_gpus: VirtualMachine, name: str) -> None:
    parts = {part: torch.zeros(2, 3, 8, device="cuda") for part in ("hx", "cx")}
    parts[name] = torch.zeros(3, 2, 8, device="cuda").transpose(0, 1)
    with pytest.raises(RuntimeError, match=f"^rnn: {name} is not contiguous$"):
        nn.LSTM(4, 8, num_layers=2).cuda()(torch.randn(5, 3, 4, device="cuda"), (parts["hx"], parts["cx"]))


def test_the_backward_pass_needs_training_mode(two_gpus: VirtualMachine) -> None:
    layer = nn.GRU(4, 8).cuda().eval()
    with pytest.raises(RuntimeError, match="cudnn RNN backward can only be called in training mode"):
        layer(torch.randn(5, 3, 4, device="cuda"))[0].sum().backward()

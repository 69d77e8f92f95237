"""Autograd, modules and optimizers on a virtual GPU give the CPU's numbers on the right device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu

GPU = torch.device("cuda:0")


def _network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3 * 6 * 6, 8),
        nn.Tanh(),
        nn.Linear(8, 4),
    )


OPTIMISERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
    lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
]


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_training_steps_give_the_cpus_numbers(
    two_gpus: VirtualMachine, optimiser: Callable[[Any], torch.optim.Optimizer]
) -> None:
    on_host = _network()
    on_gpu = copy.deepcopy(on_host).to("cuda")
    x, labels = torch.randn(5, 1, 8, 8), torch.tensor([0, 1, 2, 3, 0])
    losses: list[list[float]] = [[], []]
    steppers = [optimiser(on_host.parameters()), optimiser(on_gpu.parameters())]
    for _ in range(3):
        for index, (model, stepper, device) in enumerate(
            zip((on_host, on_gpu), steppers, ("cpu", "cuda"), strict=True)
        ):
            stepper.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(device)), labels.to(device))
            loss.backward()
            stepper.step()
            losses[index].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for expected, got in zip(on_host.state_dict().values(), on_gpu.state_dict().values(), strict=True):
        assert got.device == GPU
        torch.testing.assert_close(got.cpu(), expected)
    for parameter in on_gpu.parameters():
        assert parameter.grad is not None
        assert parameter.grad.device == GPU
    for state in steppers[1].state.values():
        assert all(value.device == GPU for name, value in state.items() if name != "step" and torch.is_tensor(value))


def test_gradients_return_to_the_gpu_of_their_leaf(two_gpus: VirtualMachine) -> None:
    host = torch.ones(2, requires_grad=True)
    first = torch.ones(2, device="cuda:0", requires_grad=True)
    second = torch.ones(2, device="cuda:1", requires_grad=True)
    ((first * 2 + host.cuda()).to("cuda:1") * second).sum().backward()
    assert first.grad is not None
    assert first.grad.device == torch.device("cuda:0")
    assert first.grad.tolist() == [2.0, 2.0]
    assert second.grad is not None
    assert second.grad.device == torch.device("cuda:1")
    assert host.grad is not None
    assert host.grad.device.type == "cpu"
    assert type(host.grad) is torch.Tensor


def test_double_backward_retain_graph_and_hooks(two_gpus: VirtualMachine) -> None:
    x = torch.tensor([2.0], device="cuda", requires_grad=True)
    (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    slope.sum().backward(retain_graph=True)
    assert x.grad is not None
    assert x.grad.tolist() == [12.0]
    seen: list[torch.device] = []

    def ten_times(gradient: torch.Tensor) -> torch.Tensor:
        seen.append(gradient.device)
        return gradient * torch.tensor([10.0]).cuda()

    x.register_hook(ten_times)
    x.grad.zero_()
    (x * torch.zeros(1, device="cuda").add(1)).sum().backward()
    assert seen == [GPU]
    assert x.grad.tolist() == [10.0]


def test_custom_functions_and_checkpointing_work(two_gpus: VirtualMachine) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * torch.full((1,), 2.0, device="cuda")

    twice: Any = Twice.apply
    x = torch.ones(1, device="cuda", requires_grad=True)
    layer = nn.Sequential(nn.Linear(1, 4), nn.Dropout()).cuda()
    torch.utils.checkpoint.checkpoint(lambda value: layer(twice(value)), x, use_reentrant=False).sum().backward()
    assert x.grad is not None
    assert x.grad.device == GPU


def test_a_gradient_on_another_device_is_refused(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="expected device cuda:0 but got cpu"):
        (x * 2).backward(torch.ones(2))
    with pytest.raises(RuntimeError, match="gradient with device type 'cpu' to a tensor with device type 'cuda'"):
        x.grad = torch.ones(2)


def test_a_module_moves_with_its_buffers_and_keeps_its_objects(two_gpus: VirtualMachine) -> None:
    model = _network()
    before = list(model.parameters())
    stepper = torch.optim.SGD(model.parameters(), lr=0.1)
    kept_graph = model(torch.randn(2, 1, 8, 8))
    kept_graph.sum().backward()
    assert model.to("cuda:1") is model
    assert all(parameter is other for parameter, other in zip(before, model.parameters(), strict=True))
    assert {value.device for value in model.state_dict().values()} == {torch.device("cuda:1")}
    assert all(
        isinstance(parameter, nn.Parameter) and parameter.requires_grad and parameter.is_leaf
        for parameter in model.parameters()
    )
    assert all(
        parameter.grad is not None and parameter.grad.device == torch.device("cuda:1")
        for parameter in model.parameters()
    )
    stepper.step()
    assert model.cpu().half()[0].weight.dtype is torch.float16
    assert type(model[0].weight) is nn.Parameter
    assert kept_graph.device.type == "cpu"


def test_tied_weights_stay_tied_and_a_number_names_a_gpu(two_gpus: VirtualMachine) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model.to(1)
    assert model[0].weight is model[1].weight
    assert model[0].weight.device == torch.device("cuda:1")
    assert model.cuda(0)[1].weight.device == GPU
    assert model.double()[0].weight.dtype is torch.float64


def test_buffers_move_and_plain_tensor_attributes_do_not(two_gpus: VirtualMachine) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = torch.ones(2)
            self.register_buffer("buffer", torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.plain

    model = Scaled().cuda()
    assert model.buffer.device == GPU
    assert model.plain.device.type == "cpu"
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        model(torch.ones(2, device="cuda"))


def test_data_may_be_set_across_devices(two_gpus: VirtualMachine) -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.data = parameter.data.cuda()
    assert parameter.device == GPU
    assert isinstance(parameter, nn.Parameter)
    assert parameter.requires_grad
    parameter.data = torch.zeros(3, device="cuda")
    assert parameter.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: (nn.Embedding(5, 3), torch.tensor([1, 4])),
        lambda: (nn.LSTM(3, 4, batch_first=True), torch.randn(2, 5, 3)),
        lambda: (nn.GRU(3, 4), torch.randn(2, 5, 3)),
        lambda: (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), torch.randn(1, 3, 4)),
        lambda: (nn.LayerNorm(3), torch.randn(2, 3)),
        lambda: (nn.MaxPool2d(2), torch.randn(1, 1, 4, 4)),
        lambda: (nn.ConvTranspose2d(1, 2, 3), torch.randn(1, 1, 4, 4)),
    ],
)
def test_layers_give_the_cpus_values(
    two_gpus: VirtualMachine, make: Callable[[], tuple[nn.Module, torch.Tensor]]
) -> None:
    layer, x = make()
    layer.eval()
    expected = layer(x)
    got = copy.deepcopy(layer).cuda()(x.cuda())
    if isinstance(expected, tuple):
        expected, got = expected[0], got[0]
    assert got.device == GPU
    torch.testing.assert_close(got.cpu(), expected)


def test_dropout_draws_from_the_gpus_generator(two_gpus: VirtualMachine) -> None:
    x = torch.ones(100, device="cuda")
    host_state = torch.get_rng_state()
    torch.cuda.manual_seed(3)
    first = nn.functional.dropout(x)
    torch.cuda.manual_seed(3)
    assert torch.equal(first, nn.functional.dropout(x))
    assert 0 < int((first == 0).sum()) < 100
    assert torch.equal(host_state, torch.get_rng_state())


def test_optimizers_and_clipping_use_foreach_kernels_as_on_cuda() -> None:
    recorder = Recorder()
    with virtual_gpu(1, recorder=recorder):
        model = _network().cuda()
        stepper = torch.optim.Adam(model.parameters(), lr=0.01)
        model(torch.randn(2, 1, 8, 8, device="cuda")).sum().backward()
        start = len(recorder.trace)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        stepper.step()
        names = [event.name for event in recorder.trace.since(start)]
    assert norm.device == GPU
    assert "aten::_foreach_norm" in names
    assert "aten::_foreach_addcdiv_" in names
    assert "aten::addcdiv_" not in names


def test_hooks_registered_before_a_move_still_run(two_gpus: VirtualMachine) -> None:
    layer = nn.Linear(2, 1)
    seen: list[str] = []
    layer.weight.register_hook(lambda gradient: seen.append(f"gradient on {gradient.device}"))
    layer.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append("accumulated"))
    layer.cuda()
    layer(torch.ones(1, 2, device="cuda")).sum().backward()
    assert seen == ["gradient on cuda:0", "accumulated"]

"""Assigning `.data` from another device moves a parameter."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gpututor.devices.virtual import virtual_gpu


def test_a_parameter_moved_by_its_data_stays_the_same_object_and_trains() -> None:
    with virtual_gpu():
        layer = nn.Linear(3, 2)
        weight = layer.weight
        optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
        for parameter in layer.parameters():
            parameter.data = parameter.data.cuda()
        assert layer.weight is weight
        assert isinstance(weight, nn.Parameter)
        assert (str(weight.device), weight.requires_grad) == ("cuda:0", True)
        before = weight.detach().cpu()
        weight.grad = torch.ones_like(weight)
        optimiser.step()
        assert torch.allclose(weight.detach().cpu(), before - 0.1)


def test_data_assignment_moves_a_parameter_back_to_the_cpu() -> None:
    with virtual_gpu():
        layer = nn.Linear(3, 2, device="cuda")
        for parameter in layer.parameters():
            parameter.data = parameter.data.cpu()
        assert str(layer.weight.device) == "cpu"
        assert type(layer.weight) is nn.Parameter


def test_a_tensor_shares_memory_with_its_new_data() -> None:
    with virtual_gpu():
        tensor, values = torch.ones(3), torch.zeros(2, device="cuda")
        tensor.data = values
        values += 1
        assert tensor.tolist() == [1.0, 1.0]


def test_data_from_another_device_is_refused_if_grad_is_set() -> None:
    with virtual_gpu():
        weight = nn.Parameter(torch.ones(2))
        weight.grad = torch.ones(2)
        with pytest.raises(NotImplementedError, match=r"module\.to"):
            weight.data = weight.data.cuda()

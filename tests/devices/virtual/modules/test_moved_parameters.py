"""A parameter that moves keeps a person's attributes and hooks; what it is cannot be kept is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("two_gpus")


def _forward_backward(layer: nn.Linear) -> None:
    layer(torch.ones(1, 2, device=layer.weight.device, dtype=layer.weight.dtype)).sum().backward()


def test_attributes_of_a_parameter_go_with_it() -> None:
    layer: Any = nn.Linear(2, 2)
    layer.weight.no_wd = True
    for move in (layer.cuda, layer.half, lambda: layer.to("cuda:1"), layer.float, layer.cpu):
        layer.weight.seen = move().weight.device
        assert layer.weight.no_wd is True
    assert set(vars(layer.weight)) == {"no_wd", "seen"}
    layer.weight.data = layer.weight.data.cuda()
    assert layer.weight.no_wd is True


def test_a_hook_from_before_a_move_is_removed_by_its_handle() -> None:
    layer = nn.Linear(2, 2)
    seen: list[str] = []
    gone = layer.weight.register_hook(lambda gradient: seen.append("gone"))
    layer.weight.register_hook(lambda gradient: seen.append(f"kept on {gradient.device}"))
    after_gone = layer.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append("after gone"))
    layer.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append("after kept"))
    layer.cuda()
    _forward_backward(layer)
    assert seen == ["gone", "kept on cuda:0", "after gone", "after kept"]
    seen.clear()
    gone.remove()
    after_gone.remove()
    _forward_backward(layer)
    assert seen == ["kept on cuda:0", "after kept"]
    layer.cpu()
    _forward_backward(layer)
    assert seen[2:] == ["kept on cpu", "after kept"]


def test_a_hook_whose_handle_was_removed_before_the_move_makes_no_trouble() -> None:
    layer = nn.Linear(2, 2)
    seen: list[int] = []
    layer.weight.register_hook(seen.append).remove()
    layer.cuda()
    layer.weight.register_hook(lambda gradient: seen.append(1))
    _forward_backward(layer)
    assert seen == [1]


class _Marked(nn.Parameter):
    """A person's own class of parameters."""


def test_a_parameter_of_an_own_class_is_refused_by_name() -> None:
    layer = nn.Linear(2, 2)
    layer.weight = _Marked(torch.ones(2, 2))
    with pytest.raises(NotImplementedError, match="does not support parameters of the class _Marked on a device"):
        layer.cuda()
    assert type(layer.weight) is _Marked
    with pytest.raises(NotImplementedError, match="_Marked"):
        layer.weight.data = torch.ones(2, 2, device="cuda")
    assert layer.half().weight.dtype is torch.float16


@pytest.fixture
def overwriting() -> Iterator[None]:
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    yield
    torch.__future__.set_overwrite_module_params_on_conversion(False)


def test_conversion_makes_new_parameters_where_torch_is_told_to(overwriting: None) -> None:
    layer = nn.Linear(2, 2)
    before = layer.weight
    _forward_backward(layer)
    layer.to("cuda")
    assert layer.weight is not before
    assert before.device.type == "cpu"
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.device == torch.device("cuda:0")
    assert layer.weight.grad is not None
    assert layer.weight.grad.device == torch.device("cuda:0")
    on_gpu = layer.weight
    layer.cpu()
    assert layer.weight is not on_gpu
    assert type(layer.weight) is nn.Parameter


def test_a_sparse_parameter_moves_and_a_backward_pass_from_before_is_refused() -> None:
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.eye(2).to_sparse())
    loss = torch.sparse.mm(layer.weight, torch.ones(2, 1)).sum()
    layer.cuda()
    assert layer.weight.device == torch.device("cuda:0")
    assert layer.weight.is_sparse
    with pytest.raises(RuntimeError, match="between the forward pass and backward"):
        loss.backward()
    torch.sparse.mm(layer.weight, torch.ones(2, 1, device="cuda")).sum().backward()
    assert layer.weight.grad is not None

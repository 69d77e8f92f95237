"""Printing of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.fidelity.program import gives

TENSOR_STR = "torch/_tensor_str.py"


@gives("tensor([1., 2.], device='cuda:0')", source=TENSOR_STR)
def a_tensor_shows_its_device() -> Any:
    return str(torch.tensor([1.0, 2.0], device="cuda"))


@gives("tensor([1., 2.], device='cuda:1', dtype=torch.float64)", source=TENSOR_STR)
def a_dtype_that_is_not_the_default_is_shown() -> Any:
    return repr(torch.tensor([1.0, 2.0], device="cuda:1", dtype=torch.float64))


@gives("tensor([1], device='cuda:0')", source=TENSOR_STR)
def whole_numbers_show_no_dtype() -> Any:
    return str(torch.tensor([1], device="cuda"))


@gives("tensor(3., device='cuda:0', requires_grad=True)", source=TENSOR_STR)
def a_leaf_shows_that_it_requires_grad() -> Any:
    return str(torch.tensor(3.0, device="cuda", requires_grad=True))


@gives("tensor([2.], device='cuda:0', grad_fn=<MulBackward0>)", source=TENSOR_STR)
def a_result_shows_its_function() -> Any:
    return str(torch.ones(1, device="cuda", requires_grad=True) * 2)


@gives("tensor([], device='cuda:0', size=(0, 3))", source=TENSOR_STR)
def an_empty_tensor_shows_its_size() -> Any:
    return str(torch.empty(0, 3, device="cuda"))


@gives("Parameter containing:\ntensor([1.], device='cuda:0', requires_grad=True)", source="torch/nn/parameter.py")
def a_parameter_says_so() -> Any:
    return str(nn.Parameter(torch.ones(1, device="cuda")))


@gives("1.50 and 2.5", source="torch/_tensor.py: __format__")
def a_single_number_is_formatted_as_a_number() -> Any:
    x = torch.tensor(1.5, device="cuda")
    return f"{x:.2f} and {x + 1}".replace("tensor(2.5000, device='cuda:0')", "2.5")


@gives("tensor([[0., 0., 0.,  ..., 0., 0., 0.]], device='cuda:0')", source=TENSOR_STR)
def a_long_tensor_is_shortened() -> Any:
    return str(torch.zeros(1, 2000, device="cuda"))


@gives("tensor([True], device='cuda:0')", source=TENSOR_STR)
def truth_values() -> Any:
    return str(torch.ones(1, device="cuda") > 0)


@gives("tensor([1.+2.j], device='cuda:0')", source=TENSOR_STR)
def complex_numbers() -> Any:
    return str(torch.tensor([1 + 2j], device="cuda"))


@gives("[tensor(1., device='cuda:0'), tensor(2., device='cuda:0')]", source=TENSOR_STR)
def a_list_of_tensors() -> Any:
    return str(list(torch.tensor([1.0, 2.0], device="cuda")))


@gives(("device(type='cuda', index=0)", "cuda:0"), source="torch/csrc/Device.cpp")
def a_device_is_shown_in_two_ways() -> Any:
    device = torch.ones(1, device="cuda").device
    return repr(device), str(device)


@gives(("torch.Size([2])", "<class 'torch.Tensor'>"), source="torch/csrc/autograd/python_variable.cpp")
def shape_and_class() -> Any:
    x = torch.ones(2, device="cuda")
    return str(x.shape), str(type(x))

"""Gradients: where they are, what is refused, and what reaches the user's own code."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from tests.fidelity.program import gives, on, raises

ENGINE = "torch/csrc/autograd/engine.cpp"
VARIABLE = "torch/csrc/autograd/python_variable.cpp"
NOTES = "docs/source/notes/autograd.rst"


def leaf(*values: float, device: str = "cuda") -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device, requires_grad=True)


@gives(on("cuda:0", "float32", [2.0, 4.0]), source=NOTES)
def the_gradient_is_where_the_leaf_is() -> Any:
    x = leaf(1, 2)
    (x * x).sum().backward()
    return x.grad


@gives((True, False, True), source=NOTES)
def a_moved_leaf_is_no_leaf() -> Any:
    x = torch.ones(2, requires_grad=True)
    y = x.cuda()
    y.sum().backward()
    return x.is_leaf, y.is_leaf, x.grad is not None


@gives(on("cpu", "float32", [3.0]), source="tools/autograd/derivatives.yaml: _to_copy")
def a_gradient_goes_back_through_a_move() -> Any:
    x = leaf(2.0, device="cpu")
    (x.cuda() * 3).to("cuda:1").sum().backward()
    return x.grad


@gives((on("cuda:0", "float32", [1.0]), on("cuda:1", "float32", [1.0])), source="tools/autograd/derivatives.yaml")
def each_gpus_leaf_gets_its_own_gradient() -> Any:
    x, y = leaf(1), leaf(1, device="cuda:1")
    (x.to("cuda:1") + y).backward()
    return x.grad, y.grad


@raises(
    RuntimeError,
    "invalid gradient at index 0 - expected device cuda:0 but got cpu",
    source=f"{ENGINE}: validate_outputs",
)
def a_gradient_on_the_cpu_for_backward() -> Any:
    x = leaf(1, 2)
    (x * 2).backward(torch.ones(2))


@raises(
    RuntimeError,
    "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. Please ensure that "
    "the gradient and the tensor are on the same device",
    source=f"{VARIABLE}: THPVariable_set_grad",
)
def assigning_a_gradient_that_is_on_the_cpu() -> Any:
    leaf(1, 2).grad = torch.ones(2)


@raises(
    RuntimeError,
    "attempting to assign a gradient located on device with index '1' to a tensor located on device with index '0'. "
    "Please ensure that the gradient and the tensor are on the same device",
    source=f"{VARIABLE}: THPVariable_set_grad",
)
def assigning_a_gradient_that_is_on_another_gpu() -> Any:
    leaf(1, 2).grad = torch.ones(2, device="cuda:1")


@raises(
    RuntimeError,
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward.",
    source="torch/csrc/autograd/saved_variable.cpp",
)
def backward_twice() -> Any:
    y = leaf(1, 2).exp().sum()
    y.backward()
    y.backward()


@raises(
    RuntimeError,
    "a leaf Variable that requires grad is being used in an in-place operation.",
    source="torch/csrc/autograd/VariableTypeUtils.h",
)
def a_leaf_changed_in_place() -> Any:
    leaf(1, 2).add_(1)


@raises(
    RuntimeError,
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.cuda.FloatTensor [2]], which is output 0 of Exp…, is at version 1; expected version 0 instead. "
    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True…).",
    source="torch/csrc/autograd/saved_variable.cpp",
)
def a_saved_tensor_changed_in_place() -> Any:
    y = leaf(1, 2).exp()
    y.add_(1)
    y.sum().backward()


@raises(
    RuntimeError,
    "grad can be implicitly created only for scalar outputs",
    source="torch/autograd/__init__.py",
)
def backward_of_a_vector() -> Any:
    (leaf(1, 2) * 2).backward()


@raises(
    RuntimeError,
    "element 0 of tensors does not require grad and does not have a grad_fn",
    source=f"{ENGINE}: validate roots",
)
def backward_without_a_graph() -> Any:
    torch.ones(1, device="cuda").backward()


@raises(
    RuntimeError,
    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    source="torch/csrc/utils/tensor_numpy.cpp",
)
def numpy_of_a_cpu_tensor_with_a_graph() -> Any:
    return leaf(1).cpu().numpy()


@gives(on("cuda:0", "float32", [12.0]), source=NOTES)
def a_gradient_of_a_gradient() -> Any:
    x = leaf(2)
    (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    return torch.autograd.grad(first, x)[0]


@gives((on("cuda:0", "float32", [5.0]), ["cuda:0"]), source="torch/_tensor.py: register_hook")
def a_hook_sees_the_gradient_on_the_gpu() -> Any:
    devices = []

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        devices.append(str(gradient.device))
        return gradient * 5

    x = leaf(1)
    x.register_hook(hook)
    x.sum().backward()
    return x.grad, devices


class Doubling(torch.autograd.Function):
    """Notes on which device each half ran."""

    seen: tuple[str, ...] = ()

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Doubling.seen = (str(x.device),)
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        Doubling.seen += (str(gradient.device), str(x.device))
        return gradient * 2


@gives((on("cuda:0", "float32", [2.0]), ("cuda:0",) * 3), source="docs/source/notes/extending.rst")
def an_own_function_gets_gpu_tensors_both_ways() -> Any:
    x = leaf(1)
    Doubling.apply(x).sum().backward()  # type: ignore[no-untyped-call]
    return x.grad, Doubling.seen


@gives((False, False, True), source=NOTES)
def no_grad_makes_no_graph() -> Any:
    x = leaf(1)
    with torch.no_grad():
        y = x * 2
    with torch.inference_mode():
        z = x * 2
    return y.requires_grad, z.requires_grad, z.is_inference()


@gives((True, True), source="docs/source/checkpoint.rst")
def checkpointing_gives_the_same_gradient() -> Any:
    x = torch.rand(4, device="cuda", requires_grad=True)

    def block(inputs: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(inputs.exp(), 0.5).sin()

    torch.cuda.manual_seed(3)
    block(x).sum().backward()
    plain, same = x.grad, []
    assert plain is not None
    for reentrant in (True, False):
        x.grad = torch.zeros_like(x)
        torch.cuda.manual_seed(3)
        checkpoint(block, x, use_reentrant=reentrant).sum().backward()
        same.append(torch.equal(x.grad, plain))
    return tuple(same)


@gives(
    (on("cuda:0", "float32", [[2.0, 0.0], [0.0, 4.0]]), on("cuda:0", "float32", [2.0, 4.0])),
    source="docs/source/func.rst",
)
def functional_derivatives_stay_on_the_gpu() -> Any:
    x = torch.tensor([1.0, 2.0], device="cuda")
    return torch.func.jacrev(lambda v: v * v)(x), torch.func.grad(lambda v: (v * v).sum())(x)

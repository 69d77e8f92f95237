"""Autograd and torch.func on a virtual GPU: hooks, custom functions, saved tensors and transforms."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import _higher_order_ops, nn
from torch.autograd import forward_ad, functional
from torch.autograd.function import once_differentiable
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

from gpututor.devices.virtual import VirtualMachine, host_tensor, is_virtual, pinned
from tests.support.virtual_gpus import gradient


def _leaf(dtype: torch.dtype = torch.float32, device: str = "cuda") -> torch.Tensor:
    return torch.arange(1.0, 4.0, dtype=dtype, device=device).requires_grad_()


def _place(gradients: Any) -> str:
    return str(gradients[0].device)


def test_retain_graph_keeps_the_graph(two_gpus: VirtualMachine) -> None:
    x = _leaf()
    loss = (x**2).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert gradient(x).tolist() == [4.0, 8.0, 12.0]


def test_tensor_hooks_see_and_change_gradients_on_the_device(two_gpus: VirtualMachine) -> None:
    x, seen = _leaf(), []
    x.register_hook(lambda gradient: gradient * 10)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(("leaf", str(leaf.grad.device))))
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda gradient: seen.append(("inner", str(gradient.device))))
    y.sum().backward()
    assert (gradient(x).tolist(), gradient(y).tolist()) == ([20.0] * 3, [1.0] * 3)
    assert seen == [("inner", "cuda:0"), ("leaf", "cuda:0")]


def test_module_hooks_see_the_device(two_gpus: VirtualMachine) -> None:
    model, seen = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).cuda(1), []
    model.register_forward_pre_hook(lambda module, given: seen.append(("pre", str(given[0].device))))
    model[0].register_forward_hook(lambda module, given, out: seen.append(("forward", str(out.device))))
    model[0].register_full_backward_pre_hook(lambda module, out: seen.append(("backward pre", _place(out))))
    model[0].register_full_backward_hook(lambda module, given, out: seen.append(("backward", _place(out))))
    model(_leaf(device="cuda:1")).sum().backward()
    assert seen == [(when, "cuda:1") for when in ("pre", "forward", "backward pre", "backward")]


class _Elsewhere(torch.autograd.Function):
    """Gives the gradient of its second input on another device."""

    @staticmethod
    def forward(ctx: Any, first: torch.Tensor, second: torch.Tensor, device: str) -> torch.Tensor:
        ctx.device = device
        return first * second

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, gradient.to(ctx.device), None


@pytest.mark.parametrize(("home", "device"), [("cuda:0", "cpu"), ("cuda:0", "cuda:1"), ("cpu", "cuda:0")])
def test_a_custom_gradient_on_another_device_raises_cudas_error(
    two_gpus: VirtualMachine, home: str, device: str
) -> None:
    x, y = _leaf(device=home), _leaf(device=home)
    apply: Any = _Elsewhere.apply
    out = apply(x, y, device)
    with pytest.raises(RuntimeError) as caught:
        out.sum().backward()
    assert str(caught.value) == (
        f"Function _ElsewhereBackward returned an invalid gradient at index 1 - expected device {home} but got {device}"
    )


class _Twice(torch.autograd.Function):
    """Defines `setup_context` and a backward that is not differentiable."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        assert str(x.device) == "cuda:0"
        return 2 * x * gradient


def test_a_custom_function_may_define_setup_context(two_gpus: VirtualMachine) -> None:
    x = _leaf()
    apply: Any = _Twice.apply
    (gradient,) = torch.autograd.grad((apply(x) ** 2).sum(), x, create_graph=True)
    assert (gradient.tolist(), str(gradient.device)) == ([4.0, 32.0, 108.0], "cuda:0")
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        gradient.sum().backward()


def test_gradcheck_works_on_the_device(two_gpus: VirtualMachine) -> None:
    x = _leaf(torch.float64)
    assert torch.autograd.gradcheck(torch.sin, (x,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda v: v**3, (x,))


def test_saved_tensors_go_through_hooks(two_gpus: VirtualMachine) -> None:
    x, packed = _leaf(), []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(str(tensor.device))
        return tensor.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.cuda()):
        y = (x * x).exp().sum()
    y.backward()
    expected = _leaf(device="cpu")
    (expected * expected).exp().sum().backward()
    assert packed
    assert set(packed) == {"cuda:0"}
    torch.testing.assert_close(host_tensor(gradient(x)), expected.grad)


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu_keeps_saved_tensors_on_the_host(two_gpus: VirtualMachine, pin_memory: bool) -> None:
    x = torch.rand(1000, device="cuda").requires_grad_()
    with torch.autograd.graph.save_on_cpu(pin_memory=pin_memory):
        y = x.exp().exp()
    kept = y.grad_fn._saved_result  # type: ignore[union-attr]
    assert is_virtual(kept)
    y.sum().backward()
    torch.testing.assert_close(host_tensor(gradient(x)), host_tensor(x.exp() * x.exp().exp()))


def test_a_factory_that_no_function_mode_sees_gives_pinned_memory(two_gpus: VirtualMachine) -> None:
    with torch._C.DisableTorchFunction():
        made = torch.empty(3, pin_memory=True)
    assert pinned(made)


def test_anomaly_mode_names_the_operator(two_gpus: VirtualMachine) -> None:
    x = torch.tensor([-1.0], device="cuda", requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            torch.autograd.detect_anomaly(),
            pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"),
        ):
            (x.sqrt() * 0).sum().backward()


def test_batched_gradients_equal_the_cpus(two_gpus: VirtualMachine) -> None:
    x = _leaf()
    (rows,) = torch.autograd.grad(x * 2, x, torch.eye(3, device="cuda"), is_grads_batched=True)
    assert torch.equal(rows, 2 * torch.eye(3, device="cuda"))


def _cubes(x: torch.Tensor) -> torch.Tensor:
    return (x**3).sum()


def _forward_mode(x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(x, torch.ones_like(x)).exp()).tangent


_TRANSFORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "grad": grad(_cubes),
    "vmap": vmap(torch.sin),
    "vmap in chunks": vmap(torch.sin, chunk_size=2),
    "vmap of grad": vmap(grad(torch.square)),
    "jacrev": jacrev(torch.sin),
    "jacfwd": jacfwd(torch.sin),
    "hessian": hessian(_cubes),
    "jacfwd of jacrev": jacfwd(jacrev(_cubes)),
    "jvp": lambda x: jvp(torch.sin, (x,), (torch.ones_like(x),))[1],
    "vjp": lambda x: vjp(torch.sin, x)[1](torch.ones_like(x))[0],
    "forward mode": _forward_mode,
    "autograd's jacobian": lambda x: functional.jacobian(torch.sin, x),
    "autograd's jacobian forward": lambda x: functional.jacobian(torch.sin, x, strategy="forward-mode", vectorize=True),
    "autograd's hessian": lambda x: functional.hessian(_cubes, x),
    "autograd's vjp": lambda x: functional.vjp(torch.sin, x, torch.ones_like(x))[1],
    "autograd's jvp": lambda x: functional.jvp(torch.sin, x, torch.ones_like(x))[1],
    "autograd's hvp": lambda x: functional.hvp(_cubes, x, torch.ones_like(x))[1],
    "autograd's vhp": lambda x: functional.vhp(_cubes, x, torch.ones_like(x))[1],
    "factories inside": vmap(
        lambda v: v * torch.ones(2, device=v.device) + torch.zeros_like(v) + torch.arange(2, device=v.device)
    ),
}


@pytest.mark.parametrize("name", _TRANSFORMS)
def test_a_transform_gives_the_cpus_values_on_the_device(two_gpus: VirtualMachine, name: str) -> None:
    transform = _TRANSFORMS[name]
    x = torch.arange(1.0, 4.0)
    got = transform(x.cuda(1))
    assert is_virtual(got)
    assert str(got.device) == "cuda:1"
    torch.testing.assert_close(host_tensor(got), transform(x))


def test_tensors_inside_a_transform_keep_their_device(two_gpus: VirtualMachine) -> None:
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append((str(x.device), x.is_cuda, x.is_meta, x.is_cpu, x.get_device()))
        return x.sum()

    x = torch.ones(2, 2, device="cuda:1")
    vmap(look)(x)
    grad(look)(x)
    jvp(look, (x,), (x,))
    assert seen == [("cuda:1", True, False, False, 1)] * 3


def test_random_numbers_inside_vmap_follow_its_rule(two_gpus: VirtualMachine) -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(2, device="cuda")

    x = torch.zeros(3, device="cuda")
    same = vmap(noisy, randomness="same")(x)
    different = vmap(noisy, randomness="different")(x)
    assert torch.equal(same[0], same[1])
    assert not torch.equal(different[0], different[1])
    assert is_virtual(different)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(noisy)(x)


def test_functional_call_ensembles_and_per_sample_gradients_work(two_gpus: VirtualMachine) -> None:
    models: list[nn.Module] = [nn.Linear(3, 2).cuda() for _ in range(3)]
    x = torch.rand(4, 3, device="cuda")
    weights, buffers = stack_module_state(models)
    together = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(weights, buffers)
    one_by_one = torch.stack([model(x) for model in models])
    torch.testing.assert_close(host_tensor(together), host_tensor(one_by_one))
    own = {name: value.detach() for name, value in models[0].named_parameters()}
    each = vmap(grad(lambda p, sample: functional_call(models[0], p, (sample,)).sum()), in_dims=(None, 0))(own, x)
    assert str(each["weight"].device) == "cuda:0"
    assert torch.equal(each["weight"], x[:, None].expand(4, 2, 3))


def test_devices_do_not_mix_inside_a_transform(two_gpus: VirtualMachine) -> None:
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        vmap(lambda x: x + torch.ones(2))(torch.ones(3, device="cuda"))


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
@pytest.mark.parametrize("sign", [1, -1])
def test_cond_chooses_a_branch_with_gradients(two_gpus: VirtualMachine, device: str, sign: int) -> None:
    x = torch.full((2,), 3.0 * sign, device=device, requires_grad=True)
    weight = torch.arange(2.0, device=device)
    out = torch.cond(x.sum() > 0, lambda a: a * weight, lambda a: a - 1, (x,))
    assert str(out.device) == device
    assert out.tolist() == ([0.0, 3.0] if sign > 0 else [-4.0, -4.0])
    out.sum().backward()
    assert gradient(x).tolist() == ([0.0, 1.0] if sign > 0 else [1.0, 1.0])


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
def test_while_loop_repeats_while_its_condition_holds(two_gpus: VirtualMachine, device: str) -> None:
    start = (torch.tensor(0, device=device), torch.ones(2, device=device))
    turns, values = _higher_order_ops.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), start)
    assert (turns.item(), values.tolist(), str(values.device)) == (3, [8.0, 8.0], device)


def test_arguments_that_are_no_functions_are_refused(two_gpus: VirtualMachine) -> None:
    with pytest.raises(RuntimeError, match="both branches to be callable"):
        torch.cond(True, cast("Any", 1), torch.neg, ())
    with pytest.raises(RuntimeError, match="to be callable"):
        _higher_order_ops.while_loop(torch.neg, None, ())

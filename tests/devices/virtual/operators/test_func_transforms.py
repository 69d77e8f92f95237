"""torch.func, autograd.functional and forward-mode differentiation: the CPU's values, on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad, functional
from torch.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

from gpututor.devices.virtual import VirtualMachine, host_tensor, is_virtual


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

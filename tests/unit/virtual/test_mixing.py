"""Tensors of two devices in one operator: CUDA's errors, word for word, and what CUDA allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine

SAME = "Expected all tensors to be on the same device, but "


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g, c: g + c, SAME + "found at least two devices, cuda:0 and cpu!"),
        (lambda g, c: c * g, SAME + "found at least two devices, cuda:0 and cpu!"),
        (lambda g, c: g.add_(c), SAME + "found at least two devices, cuda:0 and cpu!"),
        (lambda g, c: g + g.to("cuda:1"), SAME + "found at least two devices, cuda:0 and cuda:1!"),
        (lambda g, c: torch.nn.functional.mse_loss(c, g), SAME + "found at least two devices, cuda:0 and cpu!"),
        (
            lambda g, c: g @ c,
            SAME + "got mat2 is on cpu, different from other tensors on cuda:0 "
            "(when checking argument in method wrapper_CUDA_mm)",
        ),
        (
            lambda g, c: torch.nn.Linear(2, 3).cuda()(c),
            SAME + "got mat1 is on cpu, different from other tensors on cuda:0 "
            "(when checking argument in method wrapper_CUDA_addmm)",
        ),
        (
            lambda g, c: torch.nn.Embedding(3, 2).cuda()(c.long()),
            SAME + "got index is on cpu, different from other tensors on cuda:0 "
            "(when checking argument in method wrapper_CUDA__index_select)",
        ),
        (
            lambda g, c: torch.nn.functional.cross_entropy(g, c[0].long()),
            SAME + "got target is on cpu, different from other tensors on cuda:0 "
            "(when checking argument in method wrapper_CUDA_nll_loss_forward)",
        ),
        (
            lambda g, c: torch.cat([g, c]),
            "torch.cat(): all input tensors must be on the same device. Received cuda:0 and cpu",
        ),
        (
            lambda g, c: torch.nn.Conv2d(1, 1, 1).cuda()(c[None, None]),
            "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same "
            "or input should be a MKLDNN tensor and weight is a dense tensor",
        ),
    ],
)
def test_mixed_devices_raise_cudas_error(
    two_gpus: VirtualMachine, call: Callable[[torch.Tensor, torch.Tensor], object], words: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        call(torch.ones(2, 2, device="cuda"), torch.ones(2, 2))
    assert str(caught.value) == words


def test_cpu_scalars_mix_with_device_tensors(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda")
    assert (x + torch.tensor(2.0)).tolist() == (torch.tensor(2.0) + x).tolist() == [3.0, 3.0]

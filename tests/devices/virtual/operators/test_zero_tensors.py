"""Zero tensors without storage, and conjugate or negative views made before the virtual GPU is on."""

from __future__ import annotations

import torch

from gpututor.devices.virtual import virtual_gpu
from tests.support.virtual_gpus import printed

# In a child process: an operator that reads address 0 ends it with a segmentation fault.
_PROGRAM = """
import torch
from gpututor.devices.virtual import virtual_gpu

zeros = torch._efficientzerotensor((8, 8))
ones = torch.ones(8, 8)
with virtual_gpu(1):
    on_gpu = ones.cuda()
    results = [
        torch.special.ndtr(zeros) - 0.5,
        torch.nn.functional.scaled_dot_product_attention(zeros, ones, zeros),
        zeros * 0.7,
        torch.stack([zeros, zeros]),
        torch._foreach_mul([zeros], 2.0)[0],
        zeros.cuda(),
        torch.zeros(8, 8, device="cuda").copy_(zeros),
        on_gpu * zeros[0, 0],
        torch.where(on_gpu > 0, zeros[0, 0], on_gpu),
        torch.special.ndtr(zeros.view(64).sin()) - 0.5,
    ]
    print(sum(float(tensor.abs().sum()) for tensor in results))
"""


def test_zero_tensors_are_read_as_zeros() -> None:
    assert printed("-c", _PROGRAM) == "0.0\n"


def test_conjugate_and_negative_views_of_the_cpu_keep_their_values() -> None:
    conjugate = torch.tensor([1 + 2j, 3 - 1j]).conj()
    negative = conjugate.imag
    assert conjugate.is_conj()
    assert negative.is_neg()
    with virtual_gpu():
        assert conjugate.cuda().tolist() == [1 - 2j, 3 + 1j]
        assert negative.cuda().tolist() == [-2.0, 1.0]
        assert (torch.ones(2, device="cuda") * negative[0]).tolist() == [-2.0, -2.0]
        assert (torch.ones(2, device="cuda") * conjugate[0]).tolist() == [1 - 2j] * 2
        assert torch.zeros(2, device="cuda").copy_(negative).tolist() == [-2.0, 1.0]
        assert conjugate.cuda().conj().imag.tolist() == [2.0, -1.0]

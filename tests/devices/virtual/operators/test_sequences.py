"""Sequences of different lengths: lengths and batch sizes live on the host, as CUDA requires."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from gpututor.devices.virtual import VirtualMachine

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
    assert on_gpu.grad is not None
    assert on_gpu.grad.device == GPU


def test_packing_refuses_lengths_on_the_gpu_in_cudas_words(two_gpus: VirtualMachine) -> None:
    padded, lengths = torch.randn(3, 2, 4, device="cuda"), torch.tensor([3, 1], device="cuda")
    with pytest.raises(RuntimeError) as caught:
        pack_padded_sequence(padded, lengths)
    assert str(caught.value) == "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"

"""Sequences of different lengths: lengths and batch sizes live on the host, as CUDA requires."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

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


@pytest.mark.parametrize("layer", [nn.LSTM(4, 2), nn.GRU(4, 2, bidirectional=True), nn.RNN(4, 2)])
def test_packed_sequences_run_on_the_gpu_with_batch_sizes_on_the_cpu(two_gpus: VirtualMachine, layer: nn.RNN) -> None:
    sequences = [torch.randn(3, 4), torch.randn(2, 4)]
    expected, lengths = pad_packed_sequence(layer(pack_sequence(sequences))[0])
    packed = pack_sequence([sequence.cuda() for sequence in sequences])
    assert (packed.data.device, packed.batch_sizes.device.type) == (GPU, "cpu")
    on_gpu = copy.deepcopy(layer).cuda()
    padded, gpu_lengths = pad_packed_sequence(on_gpu(packed)[0])
    padded.sum().backward()
    torch.testing.assert_close(padded.detach().cpu(), expected.detach())
    assert torch.equal(lengths, gpu_lengths)
    assert all(parameter.grad is not None and parameter.grad.device == GPU for parameter in on_gpu.parameters())


def test_packing_refuses_lengths_on_the_gpu_in_cudas_words(two_gpus: VirtualMachine) -> None:
    padded, lengths = torch.randn(3, 2, 4, device="cuda"), torch.tensor([3, 1], device="cuda")
    with pytest.raises(RuntimeError) as caught:
        pack_padded_sequence(padded, lengths)
    assert str(caught.value) == "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"

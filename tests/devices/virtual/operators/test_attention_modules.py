"""Attention layers, packed sequences, checkpointing and their backend switches."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from tests.support.virtual_gpus import gradient

GPU = torch.device("cuda:0")


def test_attention_dropout_uses_the_devices_generator(two_gpus: VirtualMachine) -> None:
    query = torch.randn(1, 4, 8, 4, device="cuda")
    host_state = torch.get_rng_state()
    torch.cuda.manual_seed(1)
    first = scaled_dot_product_attention(query, query, query, dropout_p=0.5)
    torch.cuda.manual_seed(1)
    assert torch.equal(first, scaled_dot_product_attention(query, query, query, dropout_p=0.5))
    assert torch.equal(host_state, torch.get_rng_state())


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_a_transformers_fast_path_equals_its_slow_path(
    two_gpus: VirtualMachine, without_gradients: Callable[[], Any]
) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).cuda().eval()
    attention = nn.MultiheadAttention(4, 2, batch_first=True).cuda().eval()
    x = torch.randn(2, 3, 4, device="cuda")
    slow, slow_attention = model(x), attention(x, x, x)
    with without_gradients():
        fast, fast_attention = model(x), attention(x, x, x)
    assert fast.device == GPU
    torch.testing.assert_close(fast.clone(), slow.detach(), rtol=1e-4, atol=1e-5)
    for tensor, other in zip(fast_attention, slow_attention, strict=True):
        torch.testing.assert_close(tensor.clone(), other.detach(), rtol=1e-4, atol=1e-5)


def _scored(model: nn.Module, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        scores: torch.Tensor = model(x, mask=mask, is_causal=True).cpu()
    return scores


@pytest.mark.parametrize("heads", [2, 1])
@pytest.mark.parametrize("training", [False, True])
def test_an_encoder_mask_is_applied_as_on_the_cpu(training: bool, heads: int) -> None:
    """The CPU's fused layer gives the expected values while no virtual GPU is on."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, heads, 8, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    x, nothing = torch.randn(2, 5, 4), torch.zeros(5, 5)
    wanted = _scored(model, x, nothing)
    causal = _scored(model, x, nn.Transformer.generate_square_subsequent_mask(5))
    assert torch.allclose(wanted, causal, atol=1e-4) is (training or heads == 1)
    with virtual_gpu(1, "T4"):
        got = _scored(model.cuda(), x.cuda(), nothing.cuda())
        on_host = _scored(model.cpu(), x, nothing)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(on_host, wanted)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
        lambda: nn.LSTM(3, 4, proj_size=2),
        lambda: nn.GRU(3, 4, bidirectional=True),
        lambda: nn.RNN(3, 4, nonlinearity="relu"),
    ],
)
def test_packed_sequences_of_any_order_give_the_cpus_values(
    two_gpus: VirtualMachine, make: Callable[[], nn.Module]
) -> None:
    on_host = make()
    on_gpu = copy.deepcopy(on_host).cuda()
    x, lengths = torch.randn(5, 3, 3), torch.tensor([2, 5, 3])
    results = []
    for layer, value in ((on_host, x), (on_gpu, x.cuda())):
        given = pack_padded_sequence(value, lengths, enforce_sorted=False)
        assert given.batch_sizes.device.type == "cpu"
        packed, state = layer(given)
        padded, _ = pad_packed_sequence(packed)
        padded.sum().backward()
        results.append([padded, *(state if isinstance(state, tuple) else [state])])
        results[-1] += [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
    assert len(results[0]) == len(results[1])
    for tensor, other in zip(*results, strict=True):
        assert other.device == GPU
        torch.testing.assert_close(other.detach().cpu(), tensor.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_layers_draw_the_same_numbers_again_on_each_device(
    two_gpus: VirtualMachine, reentrant: bool
) -> None:
    x = torch.ones(64, device="cuda:1", requires_grad=True)
    drawn: list[torch.Tensor] = []

    def forward(value: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(64, device="cuda:0").to("cuda:1")
        drawn.append(torch.cat([noise.cpu(), torch.rand(4), nn.functional.dropout(value.detach(), 0.5).cpu()]))
        return (value * noise).sin()

    with set_checkpoint_early_stop(False):
        checkpoint(forward, x, use_reentrant=reentrant).sum().backward()
    assert len(drawn) == 2
    # Devices of the arguments only, and the host: the states that CUDA keeps.
    assert torch.equal(drawn[0][64:], drawn[1][64:])
    assert gradient(x).device == torch.device("cuda:1")


def test_cudnn_and_cublas_switches_can_be_set(two_gpus: VirtualMachine) -> None:
    layer, x = nn.Conv2d(1, 2, 2).cuda(), torch.ones(1, 1, 3, 3, device="cuda")
    expected = layer(x)
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=True, allow_tf32=True):
        assert torch.equal(layer(x), expected)
    with torch.backends.cudnn.flags(enabled=False):
        assert torch.equal(layer(x), expected)
        assert nn.LSTM(2, 2).cuda()(torch.ones(1, 1, 2, device="cuda"))[0].device == GPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.backends.cuda.sdp_kernel(enable_flash=False):
            assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()


def test_converted_sync_batch_norm_works_in_a_single_process(two_gpus: VirtualMachine) -> None:
    plain: Any = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).cuda()
    x = torch.randn(2, 1, 3, 3, device="cuda")
    synchronised: Any = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
    assert type(synchronised[1]) is nn.SyncBatchNorm
    for training in (True, False):
        plain.train(training)
        synchronised.train(training)
        torch.testing.assert_close(synchronised(x), plain(x))
    mean: Any = synchronised[1].running_mean
    assert mean.device == GPU


def test_flex_attention_runs_eagerly_with_gradients(two_gpus: VirtualMachine) -> None:
    flex = importlib.import_module("torch.nn.attention.flex_attention")
    query = torch.randn(1, 2, 16, 8)
    results = []
    for device in ("cuda:1", "cpu"):
        leaf = query.to(device).detach().requires_grad_()
        if device == "cpu":
            bias = torch.arange(16)[:, None] - torch.arange(16)
            masked = (leaf @ leaf.mT / 8**0.5 + bias).masked_fill(bias < 0, -torch.inf)
            out = masked.softmax(-1) @ leaf
        else:
            mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device=device)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out = flex.flex_attention(leaf, leaf, leaf, lambda score, b, h, i, j: score + i - j, mask)
            assert out.device == torch.device(device)
        out.square().sum().backward()
        results.append((out.detach().cpu(), gradient(leaf).cpu()))
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)


def test_an_operator_of_functions_runs_or_is_refused_by_name(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, device="cuda")
    assert torch.ops.higher_order.cond(True, torch.neg, torch.abs, (x,)).tolist() == [-1.0, -1.0]

    def scan() -> object:
        return torch.ops.higher_order.scan(lambda total, row: (total + row, total * 1), (x,), (x.expand(3, 2),), ())

    with torch.no_grad(), pytest.raises(NotImplementedError, match=r"torch\.ops\.higher_order\.scan"):
        scan()

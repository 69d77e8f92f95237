"""`scaled_dot_product_attention` and layers with attention: fused kernels, values, packed sequences and checkpoints."""

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
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import gradient, names_of, traced

attend: Any = torch.nn.functional.scaled_dot_product_attention
BACKEND = torch.nn.attention.SDPBackend
BACKENDS = [BACKEND.FLASH_ATTENTION, BACKEND.EFFICIENT_ATTENTION, BACKEND.CUDNN_ATTENTION, BACKEND.MATH]
SHAPE = (2, 4, 24, 16)
FLASH, EFFICIENT, CUDNN = (f"aten::_scaled_dot_product_{name}_attention" for name in ("flash", "efficient", "cudnn"))


def heads(dtype: torch.dtype = torch.float32, **options: Any) -> list[torch.Tensor]:
    return [torch.randn(SHAPE, dtype=dtype, device="cuda", **options) for _ in range(3)]


def kernels(program: Callable[[], object], model: str = "A100") -> list[str]:
    return names_of(traced(program, model), Kind.KERNEL)


def mask_of(kind: str) -> torch.Tensor | None:
    allowed = torch.ones(SHAPE[2], SHAPE[2], dtype=torch.bool, device="cuda").tril()
    if kind == "none":
        return None
    return allowed if kind == "bool" else torch.randn(2, 1, 1, SHAPE[2], device="cuda")


def _assert_as_on_the_cpu(
    inputs: list[torch.Tensor], mask: torch.Tensor | None = None, *, causal: bool, backends: Any = BACKENDS
) -> None:
    with torch.nn.attention.sdpa_kernel(backends):
        out = attend(*inputs, mask, is_causal=causal)
        out.square().sum().backward()
    hosts = [tensor.detach().cpu().requires_grad_() for tensor in inputs]
    expected = attend(*hosts, None if mask is None else mask.cpu(), is_causal=causal)
    expected.square().sum().backward()
    torch.testing.assert_close(out.cpu(), expected)
    for tensor, host in zip(inputs, hosts, strict=True):
        torch.testing.assert_close(gradient(tensor).cpu(), host.grad)


@pytest.mark.parametrize(("kind", "causal"), [("none", False), ("none", True), ("bool", False), ("float", False)])
def test_values_and_gradients_are_the_cpus(kind: str, causal: bool) -> None:
    with virtual_gpu():
        inputs, mask = heads(requires_grad=True), mask_of(kind)
        _assert_as_on_the_cpu(inputs, mask, causal=causal)


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [
        ("A100", torch.float32, EFFICIENT),
        ("A100", torch.float16, FLASH),
        ("T4", torch.float16, EFFICIENT),
        ("H200", torch.float32, EFFICIENT),
        ("H200", torch.bfloat16, CUDNN),
    ],
)
def test_fused_attention_is_a_single_operator_each_way(model: str, dtype: torch.dtype, expected: str) -> None:
    result = kernels(lambda: attend(*heads(dtype, requires_grad=True)).sum().backward(), model)
    assert [item for item in result if "attention" in item] == [expected, f"{expected}_backward"]
    assert not any(item in ("aten::bmm", "aten::_softmax") for item in result)


def test_fused_attention_is_cast_by_autocast_and_flash_takes_no_mask() -> None:
    def program() -> None:
        with torch.autocast("cuda", dtype=torch.float16):
            assert attend(*heads()).dtype is torch.float16

    assert FLASH in kernels(program)
    with (
        virtual_gpu(1, "A100"),
        torch.nn.attention.sdpa_kernel(BACKEND.FLASH_ATTENTION),
        pytest.warns(UserWarning, match="non-null"),
        pytest.raises(RuntimeError),
    ):
        attend(*heads(torch.float16), attn_mask=mask_of("bool"))


@pytest.mark.parametrize(("model", "dtype"), [("T4", torch.float16), ("A100", torch.bfloat16)])
def test_a_mask_of_another_dtype_is_an_error_unless_cudnn_takes_it(model: str, dtype: torch.dtype) -> None:
    def program() -> None:
        attend(*heads(dtype), torch.zeros(SHAPE[2], SHAPE[2], device="cuda"))

    with virtual_gpu(1, model), pytest.raises(RuntimeError, match=r"^invalid dtype for bias - should"):
        program()
    assert CUDNN in kernels(program, "H100")


@pytest.mark.parametrize("size", [(SHAPE[2], SHAPE[2]), (2, 1, 1, SHAPE[2]), (*SHAPE[:3], SHAPE[2])])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_learned_bias_is_fused_and_has_its_gradient(size: tuple[int, ...], dropout: float) -> None:
    def program() -> None:
        attend(*heads(), torch.randn(size, device="cuda", requires_grad=True), dropout).sum().backward()

    assert {EFFICIENT, f"{EFFICIENT}_backward"} <= set(kernels(program))
    with virtual_gpu():
        inputs = [*heads(requires_grad=True), torch.randn(size, device="cuda", requires_grad=True)]
        gradients = []
        for backend in (BACKEND.EFFICIENT_ATTENTION, BACKEND.MATH):
            with torch.nn.attention.sdpa_kernel(backend):
                gradients.append(torch.autograd.grad(attend(*inputs).square().sum(), inputs))
        for fused, unfused in zip(*gradients, strict=True):
            torch.testing.assert_close(fused, unfused)


def with_the_math_backend() -> None:
    with torch.nn.attention.sdpa_kernel(BACKEND.MATH):
        attend(*heads())


@pytest.mark.parametrize(
    "program",
    [
        lambda: torch.func.vmap(attend)(*heads()),
        lambda: attend(*heads(), torch.randn(SHAPE[2], SHAPE[2], device="cuda").mT),
        with_the_math_backend,
    ],
)
def test_unfusable_calls_run_as_several_kernels(program: Callable[[], object]) -> None:
    assert not {FLASH, EFFICIENT, CUDNN} & set(kernels(program))


def test_half_precision_is_faster_and_stores_no_score_matrix() -> None:
    def seconds(dtype: torch.dtype) -> tuple[int, int]:
        with virtual_gpu(1, "H100", values=False) as machine:
            inputs = [torch.randn(2, 16, 4096, 128, dtype=dtype, device="cuda") for _ in range(3)]
            torch.cuda.synchronize()
            began, size = machine.clock.host.now, torch.cuda.memory_allocated()
            attend(*inputs)
            torch.cuda.synchronize()
            return machine.clock.host.now - began, torch.cuda.max_memory_allocated() - size

    (slow, _), (quick, extra) = seconds(torch.float32), seconds(torch.float16)
    assert slow > 4 * quick
    assert extra < 2 * 16 * 4096 * 4096, "the matrix of all pairs would take more"


@pytest.mark.parametrize(
    ("backend", "model", "dtype"),
    [
        (BACKEND.FLASH_ATTENTION, "A100", torch.float32),
        (BACKEND.FLASH_ATTENTION, "T4", torch.float16),
        (BACKEND.CUDNN_ATTENTION, "T4", torch.float16),
        (BACKEND.EFFICIENT_ATTENTION, "A100", torch.float64),
        (BACKEND.EFFICIENT_ATTENTION, "T4", torch.bfloat16),
    ],
)
def test_a_backend_that_cannot_run_raises_cudas_error_with_its_reasons(
    backend: Any, model: str, dtype: torch.dtype
) -> None:
    with (
        virtual_gpu(1, model),
        torch.nn.attention.sdpa_kernel(backend),
        pytest.warns(UserWarning, match="not used because"),
        pytest.raises(RuntimeError, match=r"^No available kernel"),
    ):
        attend(*heads(dtype))


@pytest.mark.parametrize(
    ("backend", "model", "dtype"),
    [
        (BACKEND.FLASH_ATTENTION, "A100", torch.bfloat16),
        (BACKEND.EFFICIENT_ATTENTION, "T4", torch.float32),
        (BACKEND.CUDNN_ATTENTION, "H100", torch.float16),
        (BACKEND.MATH, "T4", torch.float64),
    ],
)
def test_a_backend_that_can_run_does(backend: Any, model: str, dtype: torch.dtype) -> None:
    with virtual_gpu(1, model), torch.nn.attention.sdpa_kernel(backend):
        assert attend(*heads(dtype)).shape == SHAPE


def test_flash_attention_takes_fewer_heads_of_keys() -> None:
    with virtual_gpu(1, "A100"), torch.nn.attention.sdpa_kernel(BACKEND.FLASH_ATTENTION):
        query, key, value = heads(torch.float16)
        key, value = (tensor[:, :2].requires_grad_() for tensor in (key, value))
        grouped = attend(query, key, value, enable_gqa=True)
        whole = attend(query, *[tensor.repeat_interleave(2, 1) for tensor in (key, value)])
        torch.testing.assert_close(grouped, whole, rtol=1e-2, atol=1e-3)
        gradients = [torch.autograd.grad(out.square().sum(), (key, value)) for out in (grouped, whole)]
        for first, second in zip(*gradients, strict=True):
            torch.testing.assert_close(first, second, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS[:3])
@pytest.mark.parametrize("causal", [False, True])
def test_each_backend_gives_the_cpus_values_and_gradients(backend: Any, causal: bool) -> None:
    with virtual_gpu(1, "H200"):
        _assert_as_on_the_cpu(heads(torch.bfloat16, requires_grad=True), causal=causal, backends=backend)


@pytest.mark.parametrize("backend", BACKENDS[:3])
def test_results_have_the_layout_of_the_backends_kernel(backend: Any) -> None:
    with virtual_gpu(1, "H200"), torch.nn.attention.sdpa_kernel(backend):
        first = torch.rand(2, 4, 32, 16, device="cuda", dtype=torch.float16)
        third = torch.rand(2, 32, 4, 16, device="cuda", dtype=torch.float16).transpose(1, 2)
        results = [attend(x, x, x).stride() for x in (first, third)]
        strides = [first.stride(), third.stride()]
    if backend is BACKEND.EFFICIENT_ATTENTION:
        strides[0] = strides[1]
    assert results == strides


def test_a_causal_mask_saves_time() -> None:
    times = []
    with virtual_gpu(1, "H200", values=False):
        inputs = [torch.empty(8, 16, 4096, 64, dtype=torch.float16, device="cuda") for _ in range(3)]
        for causal in (False, True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            attend(*inputs, is_causal=causal)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
    assert 0.5 < times[1] / times[0] < 0.65


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


def _encoder(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, **options)


FUSED: dict[str, Callable[[], nn.Module]] = {
    "encoder": _encoder,
    "encoder with a last norm": lambda: _encoder(norm=nn.LayerNorm(4)),
    "encoder without nested tensors": lambda: _encoder(enable_nested_tensor=False),
    "encoder without a check of the mask": lambda: _encoder(mask_check=False),
    "layer": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    "layer with norms first": lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first=True),
    "layer with an odd number of heads": lambda: nn.TransformerEncoderLayer(4, 1, 8, 0.0, batch_first=True),
}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("lengths", [(3, 5), (0, 5)])
def test_padding_gives_what_the_cpus_fused_layers_give(name: str, training: bool, lengths: tuple[int, int]) -> None:
    torch.manual_seed(0)
    model = FUSED[name]().train(training)
    x, padding = torch.randn(2, 5, 4), torch.arange(5) >= torch.tensor(lengths)[:, None]
    with torch.no_grad():
        wanted = model(x, src_key_padding_mask=padding)
        with virtual_gpu(1, "T4"):
            on_host = model(x, src_key_padding_mask=padding)
            got = model.cuda()(x.cuda(), src_key_padding_mask=padding.cuda()).cpu()
    torch.testing.assert_close(got, wanted, equal_nan=True)
    torch.testing.assert_close(on_host, wanted, equal_nan=True)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_attention_to_nothing_gives_what_the_cpus_fused_kernel_gives(training: bool, need_weights: bool) -> None:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(4, 2, batch_first=True).train(training)
    x, mask = torch.randn(2, 3, 4), torch.tensor([[1, 1, 1], [0, 0, 1], [0, 0, 0]]).bool()
    padding = torch.tensor([[0, 0, 0], [1, 1, 1]]).bool()
    for masks in ({"attn_mask": mask}, {"key_padding_mask": padding}, {"attn_mask": mask, "key_padding_mask": padding}):
        with torch.no_grad():
            wanted, _ = model(x, x, x, need_weights=need_weights, **masks)
            with virtual_gpu(1, "T4"):
                masks = {name: mask.cuda() for name, mask in masks.items()}
                y = x.cuda()
                got = model.cuda()(y, y, y, need_weights=need_weights, **masks)[0].cpu()
                model.cpu()
        torch.testing.assert_close(got, wanted, equal_nan=True)


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


@pytest.mark.parametrize(
    ("model", "backends", "options", "expected"),
    [
        ("A100", [BACKEND.EFFICIENT_ATTENTION, BACKEND.FLASH_ATTENTION], {"set_priority": True}, EFFICIENT),
        ("H100", [BACKEND.EFFICIENT_ATTENTION, BACKEND.FLASH_ATTENTION], {"set_priority": True}, EFFICIENT),
        ("A100", [BACKEND.MATH, BACKEND.FLASH_ATTENTION], {"set_priority": True}, "aten::bmm"),
        ("A100", [BACKEND.MATH, BACKEND.FLASH_ATTENTION], {}, FLASH),
        ("A100", [BACKEND.CUDNN_ATTENTION, BACKEND.MATH], {}, "aten::bmm"),
        ("H100", [BACKEND.CUDNN_ATTENTION, BACKEND.MATH], {}, CUDNN),
        ("A100", [BACKEND.CUDNN_ATTENTION], {}, CUDNN),
    ],
)
def test_the_first_backend_in_order_of_priority_runs(
    model: str, backends: Any, options: dict[str, bool], expected: str
) -> None:
    def program() -> None:
        with torch.nn.attention.sdpa_kernel(backends, **options):
            attend(*heads(torch.float16))

    assert {FLASH, EFFICIENT, CUDNN, "aten::bmm"} & set(kernels(program, model)) == {expected}


def test_cudnns_attention_is_not_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    def program() -> None:
        torch.use_deterministic_algorithms(True)
        try:
            attend(*heads(torch.float16))
        finally:
            torch.use_deterministic_algorithms(False)

    assert {FLASH, EFFICIENT, CUDNN} & set(kernels(program, "H100")) == {FLASH}

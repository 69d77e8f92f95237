"""Autocast casts by CUDA's lists of operators."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.operators.autocast import policies
from gpututor.trace.events import Kind
from tests.support.threads import started

aten = torch.ops.aten
Make = Callable[..., torch.Tensor]
Call = Callable[[Make], Any]


def _labels(*size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.int64, device="cuda")


def _on_fractions(name: str) -> Call:
    return lambda make: getattr(torch, name)(make(3) / 2)


def _signs(make: Make, *size: int) -> torch.Tensor:
    return make(*size).sign()


def _rnn(op: Any, gates: int, states: int, *, packed: bool = False) -> Call:
    """Run a batch of 2 by 3 steps by 4 features through a layer of 4.

    If `packed`, run sequences of two steps and one.
    """

    def call(make: Make) -> Any:
        first = make(1, 2, 4)
        state = [first, make(1, 2, 4)] if states == 2 else first
        weights = [make(4 * gates, 4), make(4 * gates, 4), make(4 * gates), make(4 * gates)]
        options = (True, 1, 0.0, True, False)
        if packed:
            return op(make(3, 4), torch.tensor([2, 1]), state, weights, *options)
        return op(make(2, 3, 4), state, weights, *options, True)

    return call


def _convolution(make: Make) -> tuple[Any, ...]:
    return make(1, 2, 5, 5), make(3, 2, 3, 3), make(3), [1, 1], [0, 0], [1, 1], False, [0, 0], 1


LOWER_PRECISION: dict[str, Call] = {
    "_convolution.deprecated": lambda t: aten._convolution.deprecated(*_convolution(t), False, False, True),
    "_convolution": lambda t: aten._convolution(*_convolution(t), False, False, True, True),
    "convolution": lambda t: aten.convolution(*_convolution(t)),
    "conv1d": lambda t: torch.conv1d(t(1, 2, 5), t(3, 2, 3), t(3)),
    "conv2d": lambda t: torch.conv2d(t(1, 2, 5, 5), t(3, 2, 3, 3), t(3)),
    "conv3d": lambda t: torch.conv3d(t(1, 2, 3, 3, 3), t(3, 2, 2, 2, 2), t(3)),
    "conv_tbc": lambda t: torch.conv_tbc(t(5, 1, 2), t(3, 2, 3), t(3)),
    "conv_transpose1d": lambda t: torch.conv_transpose1d(t(1, 2, 5), t(2, 3, 3)),
    "conv_transpose2d.input": lambda t: torch.conv_transpose2d(t(1, 2, 5, 5), t(2, 3, 3, 3)),
    "conv_transpose3d.input": lambda t: torch.conv_transpose3d(t(1, 2, 3, 3, 3), t(2, 3, 2, 2, 2)),
    "prelu": lambda t: torch.prelu(t(2, 3), t(1)),
    "addmm": lambda t: torch.addmm(t(2, 2), t(2, 3), t(3, 2)),
    "addmv": lambda t: torch.addmv(t(2), t(2, 3), t(3)),
    "addr": lambda t: torch.addr(t(2, 3), t(2), t(3)),
    "matmul": lambda t: t(2, 2, 3) @ t(3, 2),
    "einsum": lambda t: torch.einsum("ij,jk->ik", t(2, 3), t(3, 2)),
    "mm": lambda t: torch.mm(t(2, 3), t(3, 2)),
    "mv": lambda t: torch.mv(t(2, 3), t(3)),
    "linalg_vecdot": lambda t: torch.linalg.vecdot(t(2, 3), t(2, 3)),
    "linear": lambda t: torch.nn.functional.linear(t(2, 3), t(4, 3), t(4)),
    "addbmm": lambda t: torch.addbmm(t(2, 2), t(4, 2, 3), t(4, 3, 2)),
    "baddbmm": lambda t: torch.baddbmm(t(4, 2, 2), t(4, 2, 3), t(4, 3, 2)),
    "bmm": lambda t: torch.bmm(t(4, 2, 3), t(4, 3, 2)),
    "chain_matmul": lambda t: aten.chain_matmul([t(2, 3), t(3, 4), t(4, 2)]),
    "linalg_multi_dot": lambda t: torch.linalg.multi_dot([t(2, 3), t(3, 4), t(4, 2)]),
    "lstm_cell": lambda t: torch.lstm_cell(t(2, 3), [t(2, 4), t(2, 4)], t(16, 3), t(16, 4), t(16), t(16)),
    "gru_cell": lambda t: torch.gru_cell(t(2, 3), t(2, 4), t(12, 3), t(12, 4), t(12), t(12)),
    "rnn_tanh_cell": lambda t: torch.rnn_tanh_cell(t(2, 3), t(2, 4), t(4, 3), t(4, 4), t(4), t(4)),
    "rnn_relu_cell": lambda t: torch.rnn_relu_cell(t(2, 3), t(2, 4), t(4, 3), t(4, 4), t(4), t(4)),
    "scaled_dot_product_attention": lambda t: torch.nn.functional.scaled_dot_product_attention(
        t(1, 2, 3, 4), t(1, 2, 3, 4), t(1, 2, 3, 4)
    ),
    "lstm.input": _rnn(aten.lstm.input, 4, 2),
    "gru.input": _rnn(aten.gru.input, 3, 1),
    "rnn_tanh.input": _rnn(aten.rnn_tanh.input, 1, 1),
    "rnn_relu.input": _rnn(aten.rnn_relu.input, 1, 1),
    "lstm.data": _rnn(aten.lstm.data, 4, 2, packed=True),
    "gru.data": _rnn(aten.gru.data, 3, 1, packed=True),
    "rnn_tanh.data": _rnn(aten.rnn_tanh.data, 1, 1, packed=True),
    "rnn_relu.data": _rnn(aten.rnn_relu.data, 1, 1, packed=True),
}

ONLY_ON_A_GPU = {"_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "_scaled_dot_product_flash_attention"}
"""Fused kernels of CUDA alone; the lists also contain the public functions that choose them."""

FLOAT32: dict[str, Call] = {
    **{name: _on_fractions(name) for name in ("acos", "asin", "erfinv", "log", "log10", "log2", "log1p", "rsqrt")},
    **{name: _on_fractions(name) for name in ("cosh", "exp", "expm1", "reciprocal", "sinh", "tan")},
    "pow.Tensor_Scalar": lambda t: t(3) ** 2,
    "pow.Tensor_Tensor": lambda t: t(3) ** t(3),
    "pow.Scalar": lambda t: 2 ** t(3),
    "softplus": lambda t: torch.nn.functional.softplus(t(3)),
    "layer_norm": lambda t: torch.nn.functional.layer_norm(t(2, 3), (3,), t(3), t(3)),
    "native_layer_norm": lambda t: torch.native_layer_norm(t(2, 3), (3,), t(3), t(3), 1e-5),
    "rms_norm": lambda t: torch.nn.functional.rms_norm(t(2, 3), (3,), t(3)),
    "group_norm": lambda t: torch.nn.functional.group_norm(t(2, 4, 3), 2, t(4), t(4)),
    "frobenius_norm.dim": lambda t: torch.frobenius_norm(t(2, 3), [1]),
    "nuclear_norm": lambda t: torch.nuclear_norm(t(2, 3)),
    "nuclear_norm.dim": lambda t: torch.nuclear_norm(t(2, 3), [0, 1]),
    "cosine_similarity": lambda t: torch.cosine_similarity(t(2, 3), t(2, 3)),
    "poisson_nll_loss": lambda t: torch.poisson_nll_loss(t(3), t(3), True, False, 1e-8, 1),
    "cosine_embedding_loss": lambda t: torch.cosine_embedding_loss(t(2, 3), t(2, 3), _signs(t, 2)),
    "nll_loss": lambda t: torch.nn.functional.nll_loss(t(2, 3), _labels(2)),
    "nll_loss2d": lambda t: torch.nn.functional.nll_loss(t(2, 3, 2, 2), _labels(2, 2, 2)),
    "hinge_embedding_loss": lambda t: torch.hinge_embedding_loss(t(3), _signs(t, 3)),
    "kl_div": lambda t: torch.kl_div(t(3), t(3)),
    "l1_loss": lambda t: torch.nn.functional.l1_loss(t(3), t(3)),
    "smooth_l1_loss": lambda t: torch.nn.functional.smooth_l1_loss(t(3), t(3)),
    "huber_loss": lambda t: torch.nn.functional.huber_loss(t(3), t(3)),
    "mse_loss": lambda t: torch.nn.functional.mse_loss(t(3), t(3)),
    "margin_ranking_loss": lambda t: torch.margin_ranking_loss(t(3), t(3), _signs(t, 3)),
    "multilabel_margin_loss": lambda t: torch.nn.functional.multilabel_margin_loss(t(2, 3), _labels(2, 3)),
    "soft_margin_loss": lambda t: torch.nn.functional.soft_margin_loss(t(3), _signs(t, 3)),
    "triplet_margin_loss": lambda t: torch.triplet_margin_loss(t(2, 3), t(2, 3), t(2, 3)),
    "multi_margin_loss": lambda t: torch.nn.functional.multi_margin_loss(t(2, 3), _labels(2)),
    "binary_cross_entropy_with_logits": lambda t: torch.binary_cross_entropy_with_logits(t(3), t(3)),
    "dist": lambda t: torch.dist(t(3), t(3)),
    "pdist": lambda t: torch.pdist(t(3, 2)),
    "cdist": lambda t: torch.cdist(t(3, 2), t(4, 2)),
    "renorm": lambda t: torch.renorm(t(3, 2), 2, 0, 1.0),
    "logsumexp": lambda t: torch.logsumexp(t(3, 2), 1),
    "upsample_nearest1d": lambda t: aten.upsample_nearest1d(t(1, 1, 2), [4]),
    "_upsample_nearest_exact1d": lambda t: aten._upsample_nearest_exact1d(t(1, 1, 2), [4]),
    "upsample_nearest2d": lambda t: aten.upsample_nearest2d(t(1, 1, 2, 2), [4, 4]),
    "_upsample_nearest_exact2d": lambda t: aten._upsample_nearest_exact2d(t(1, 1, 2, 2), [4, 4]),
    "upsample_nearest3d": lambda t: aten.upsample_nearest3d(t(1, 1, 2, 2, 2), [4, 4, 4]),
    "_upsample_nearest_exact3d": lambda t: aten._upsample_nearest_exact3d(t(1, 1, 2, 2, 2), [4, 4, 4]),
    "upsample_linear1d": lambda t: aten.upsample_linear1d(t(1, 1, 2), [4], False),
    "upsample_bilinear2d": lambda t: aten.upsample_bilinear2d(t(1, 1, 2, 2), [4, 4], False),
    "_upsample_bilinear2d_aa": lambda t: aten._upsample_bilinear2d_aa(t(1, 1, 2, 2), [4, 4], False),
    "upsample_trilinear3d": lambda t: aten.upsample_trilinear3d(t(1, 1, 2, 2, 2), [4, 4, 4], False),
    "upsample_bicubic2d": lambda t: aten.upsample_bicubic2d(t(1, 1, 2, 2), [4, 4], False),
    "_upsample_bicubic2d_aa": lambda t: aten._upsample_bicubic2d_aa(t(1, 1, 2, 2), [4, 4], False),
}

FLOAT32_RESULT: dict[str, Call] = {
    "prod": lambda t: t(3).prod(),
    "prod.dim_int": lambda t: t(3, 2).prod(1),
    "softmax.int": lambda t: torch.softmax(t(3, 2), 1),
    "log_softmax.int": lambda t: torch.log_softmax(t(3, 2), 1),
    "cumprod": lambda t: t(3).cumprod(0),
    "cumsum": lambda t: t(3).cumsum(0),
    "linalg_vector_norm": lambda t: torch.linalg.vector_norm(t(3)),
    "linalg_matrix_norm": lambda t: torch.linalg.matrix_norm(t(3, 2), 1),
    "linalg_matrix_norm.str_ord": lambda t: torch.linalg.matrix_norm(t(3, 2)),
    "sum": lambda t: t(3).sum(),
    "sum.dim_IntList": lambda t: t(3, 2).sum([0]),
    "norm.Scalar": lambda t: aten.norm.Scalar(t(3)),
    "norm.ScalarOpt_dim": lambda t: aten.norm.ScalarOpt_dim(t(3, 2), 2, [1], True),
}

WIDEST: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "addcdiv": lambda x, y: torch.addcdiv(x, y, y),
    "addcmul": lambda x, y: torch.addcmul(x, y, y),
    "atan2": lambda x, y: torch.atan2(x, y),
    "bilinear": lambda x, y: torch.bilinear(x, y, torch.ones(2, 3, 3, dtype=x.dtype, device="cuda"), None),
    "cross": lambda x, y: torch.cross(x, y, 1),
    "dot": lambda x, y: torch.dot(x[0], y[0]),
    "vdot": lambda x, y: torch.vdot(x[0], y[0]),
    "grid_sampler": lambda x, y: torch.grid_sampler(x[None, None], y[None, :, None, :2], 0, 0, False),
    "index_put": lambda x, y: torch.index_put(x, [_labels(2)], y[:2]),
    "tensordot": lambda x, y: torch.tensordot(x, y, 2),
    "scatter_add": lambda x, y: torch.scatter_add(x, 0, _labels(2, 3), y),
}


GPU = torch.device("cuda:0")


def _dtypes(result: Any) -> set[torch.dtype]:
    value = result if isinstance(result, tuple | list) else [result]
    assert all(item.device == GPU for item in value)
    return {item.dtype for item in value if item.is_floating_point()}


def _make(dtype: torch.dtype) -> Make:
    return lambda *size: torch.rand(*size, device="cuda").add(0.1).to(dtype)


def test_every_listed_operator_has_a_sample() -> None:
    tried = {*LOWER_PRECISION, *FLOAT32, *FLOAT32_RESULT, *WIDEST}
    assert tried | ONLY_ON_A_GPU | {"binary_cross_entropy"} == set(policies())


F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
LISTS: list[tuple[dict[str, Call], torch.dtype, torch.dtype, torch.dtype]] = [
    (LOWER_PRECISION, F32, F16, F16),
    (LOWER_PRECISION, F32, BF16, BF16),
    (FLOAT32, F16, F16, F32),
    (FLOAT32_RESULT, F16, F16, F32),
]
"""Operators, and the dtypes of their inputs, of autocast and of their results under autocast."""


@pytest.mark.parametrize(
    ("call", "given", "cast", "expected"),
    [pytest.param(call, *dtypes, id=f"{name}-{dtypes[1]}") for calls, *dtypes in LISTS for name, call in calls.items()],
)
def test_an_operator_computes_in_the_dtype_of_its_list(
    two_gpus: VirtualMachine, call: Call, given: torch.dtype, cast: torch.dtype, expected: torch.dtype
) -> None:
    with torch.autocast("cuda", cast):
        assert _dtypes(call(_make(given))) == {expected}
    if call not in FLOAT32.values():
        assert _dtypes(call(_make(given))) == {given}


@pytest.mark.parametrize("name", WIDEST)
def test_promoting_operators_use_the_widest_dtype(two_gpus: VirtualMachine, name: str) -> None:
    wide = torch.rand(2, 3, device="cuda")
    narrow = wide.half()
    call = WIDEST[name]
    with torch.autocast("cuda"):
        assert _dtypes(call(narrow, narrow)) == {torch.float16}
        assert _dtypes(call(wide, narrow)) == {torch.float32}
        assert _dtypes(call(narrow, wide)) == {torch.float32}


def test_other_dtypes_and_binary_cross_entropy_are_refused_in_cudas_words(two_gpus: VirtualMachine) -> None:
    x = torch.ones(3, device="cuda", dtype=torch.bfloat16)
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="Unexpected floating ScalarType in at::autocast"):
        torch.dot(x, x)
    x = torch.full((3,), 0.5, device="cuda")
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast") as caught:
        nn.BCELoss()(x, x)
    assert str(caught.value).splitlines()[-1] == "safe to autocast."
    assert nn.BCELoss()(x, x).dtype is torch.float32


def test_dtypes_outside_the_lists_are_left_alone(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        assert (x + x.half()).dtype is torch.float32
        assert (x.half() * 2).dtype is torch.float16
        assert (x.double() @ x.double()).dtype is torch.float64
        assert torch.relu(x).dtype is torch.float32
        assert x.int().sum().dtype is torch.int64
    x = torch.ones(3, 2, device="cuda", dtype=torch.float16)
    with torch.autocast("cuda"):
        assert torch.softmax(x, 1, dtype=torch.float16).dtype is torch.float16
        assert x.sum(dtype=torch.float64).dtype is torch.float64
        assert x.double().sum().dtype is torch.float64


def test_autocast_of_a_device_leaves_tensors_of_other_devices_alone(two_gpus: VirtualMachine) -> None:
    on_host, on_gpu = torch.ones(2, 2), torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        assert (on_host @ on_host).dtype is torch.float32
    with torch.autocast("cpu"):
        assert (on_host @ on_host).dtype is torch.bfloat16
        assert (on_gpu @ on_gpu).dtype is torch.float32
        assert nn.functional.linear(on_gpu, on_gpu).dtype is torch.float32
    with torch.autocast("cuda"), torch.autocast("cpu"):
        assert (on_host @ on_host).dtype is torch.bfloat16
        assert (on_gpu @ on_gpu).dtype is torch.float16


def test_autocast_is_a_block_or_a_decorator_and_can_be_disabled_inside(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, device="cuda")
    assert not torch.is_autocast_enabled("cuda")
    with torch.amp.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_dtype("cuda") is torch.bfloat16
        with torch.autocast("cuda", enabled=False):
            assert not torch.is_autocast_enabled("cuda")
            assert (x @ x).dtype is torch.float32
        assert (x @ x).dtype is torch.bfloat16
    assert torch.get_autocast_dtype("cuda") is torch.float16
    assert (x @ x).dtype is torch.float32
    with pytest.warns(FutureWarning, match="`torch.cuda.amp.autocast"):
        region = torch.cuda.amp.autocast(dtype=torch.bfloat16)
    with region:
        assert (x @ x).dtype is torch.bfloat16

    @torch.autocast("cuda")  # type: ignore[untyped-decorator]
    def product(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    assert product(x).dtype is torch.float16


def test_casts_are_part_of_the_graph_and_gradients_have_the_weights_dtype(two_gpus: VirtualMachine) -> None:
    layer = nn.Linear(3, 2).cuda()
    x = torch.rand(4, 3, device="cuda")
    with torch.autocast("cuda"):
        out = layer(x)
    out.float().sum().backward()
    assert layer.weight.grad is not None
    assert (layer.weight.grad.dtype, layer.weight.grad.device) == (torch.float32, GPU)
    expected = x.half().sum(0).float().expand(2, 3)
    torch.testing.assert_close(layer.weight.grad, expected, rtol=1e-3, atol=1e-3)


def test_a_block_casts_a_weight_once_and_frees_the_copy_last(two_gpus: VirtualMachine) -> None:
    weight = nn.Parameter(torch.rand(256, 256, device="cuda"))
    x = torch.rand(1, 256, device="cuda", dtype=torch.float16)
    before = torch.cuda.memory_allocated()
    with torch.autocast("cuda"):
        with torch.autocast("cuda"):
            nn.functional.linear(x, weight)
        assert torch.cuda.memory_allocated() - before == 256 * 256 * 2
        nn.functional.linear(x, weight)
        assert torch.cuda.memory_allocated() - before == 256 * 256 * 2
    assert torch.cuda.memory_allocated() == before
    with torch.autocast("cuda", cache_enabled=False):
        nn.functional.linear(x, weight)
        assert torch.cuda.memory_allocated() == before


def test_a_cast_under_no_grad_keeps_later_gradients(two_gpus: VirtualMachine) -> None:
    layer = nn.Linear(2, 2).cuda()
    x = torch.ones(1, 2, device="cuda")
    with torch.autocast("cuda"):
        with torch.no_grad():
            assert not layer(x).requires_grad
        layer(x).sum().backward()
    assert layer.weight.grad is not None


def test_a_weight_that_died_inside_the_block_is_not_kept(two_gpus: VirtualMachine) -> None:
    x = torch.ones(1, 2, device="cuda")
    with torch.autocast("cuda"):
        layer = nn.Linear(2, 2).cuda()
        first, seen = layer(x), weakref.ref(layer)
        del layer, first
        gc.collect()
        assert seen() is None
        assert nn.Linear(2, 2).cuda()(x).dtype is torch.float16


def test_custom_functions_choose_their_dtype(two_gpus: VirtualMachine) -> None:
    seen: list[torch.dtype] = []

    def squaring(**options: Any) -> Any:
        class Squaring(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", **options)  # type: ignore[untyped-decorator]
            def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
                seen.extend([x.dtype, (x @ x).dtype])
                return x @ x

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")  # type: ignore[untyped-decorator]
            def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
                seen.append((gradient @ gradient).dtype)
                return gradient

        return Squaring.apply

    x = torch.eye(2, device="cuda").requires_grad_()
    with torch.autocast("cuda"):
        out = squaring(cast_inputs=torch.float32)(x.half())
    out.sum().backward()
    assert seen == [torch.float32] * 3
    seen.clear()
    with torch.autocast("cuda"):
        out = squaring()(x)
    out.sum().backward()
    assert seen == [torch.float32, torch.float16, torch.float16]


def test_whole_layers_compute_in_half_as_on_cuda(two_gpus: VirtualMachine) -> None:
    x = torch.rand(2, 3, 4, device="cuda")
    with torch.autocast("cuda"):
        out, (hidden, cell) = nn.LSTM(4, 6, batch_first=True).cuda()(x)
        assert {out.dtype, hidden.dtype, cell.dtype} == {torch.float16}
        assert nn.GRU(4, 6).cuda()(x)[0].dtype is torch.float16
        assert nn.LSTMCell(4, 6).cuda()(x[0])[0].dtype is torch.float16
        attention, _ = nn.MultiheadAttention(4, 2, batch_first=True).cuda()(x, x, x)
        assert attention.dtype is torch.float16
        assert nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).cuda()(x).dtype is torch.float32
        normalized = nn.BatchNorm2d(3).cuda()(torch.rand(2, 3, 4, 4, device="cuda").half())
        assert normalized.dtype is torch.float16


def test_checkpointed_layers_are_computed_again_under_the_same_autocast(two_gpus: VirtualMachine) -> None:
    layer = nn.Linear(3, 3).cuda()
    x = torch.rand(2, 3, device="cuda", requires_grad=True)
    seen: list[torch.dtype] = []

    def forward(value: torch.Tensor) -> torch.Tensor:
        seen.append((value @ value.T).dtype)
        out: torch.Tensor = layer(value)
        return out

    for reentrant in (True, False):
        with torch.autocast("cuda"):
            out = torch.utils.checkpoint.checkpoint(forward, x, use_reentrant=reentrant)
        out.float().sum().backward()
    assert seen == [torch.float16] * 4


def test_inference_mode_and_vmap_are_cast_too(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, 2, device="cuda")
    with torch.autocast("cuda"):
        assert torch.vmap(torch.mm)(x, x).dtype is torch.float16
        with torch.inference_mode():
            assert nn.Linear(2, 2).cuda()(x).dtype is torch.float16
            assert torch.softmax(x.half(), 1).dtype is torch.float32


def test_autocast_rules_are_removed_after_the_session() -> None:
    before = torch._C._dispatch_dump("aten::acos")
    with virtual_gpu(1):
        x = torch.ones(2, 2, device="cuda")
        with torch.autocast("cuda"):
            assert (x @ x).dtype is torch.float16
            assert torch._C._dispatch_dump("aten::acos") != before
    assert torch._C._dispatch_dump("aten::acos") == before
    has_gpu = torch.cuda.is_available()
    warns = nullcontext() if has_gpu else pytest.warns(UserWarning, match="CUDA is not available")
    with warns, torch.autocast("cuda"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with virtual_gpu(1), torch.autocast("cuda"):
        y = torch.ones(2, 2, device="cuda")
        assert (y @ y).dtype is torch.float16


def test_threads_that_enter_autocast_at_once_all_compute_in_half(two_gpus: VirtualMachine) -> None:
    x = torch.ones(2, 2, device="cuda")
    together = threading.Barrier(8)
    results: list[torch.dtype] = []

    def work() -> None:
        together.wait(60)
        with torch.autocast("cuda"):
            results.append((x @ x).dtype)

    for thread in [started(work) for _ in range(8)]:
        thread.join()
    assert results == [torch.float16] * 8


@pytest.mark.parametrize("call", [torch.softmax, torch.nn.functional.log_softmax, torch.Tensor.log_softmax])
def test_float32_softmax_of_float16_is_one_kernel(recorder: Recorder, call: Any) -> None:
    x = torch.rand(3, 4, device="cuda", dtype=torch.float16, requires_grad=True)
    first = len(recorder.trace)
    out = call(x, 1, dtype=torch.float32)
    with torch.autocast("cuda"):
        alike = call(x, 1)
    kernels = [event.name for event in recorder.trace.since(first) if event.kind is Kind.KERNEL]
    out.sum().backward()
    name = "aten::_softmax" if call is torch.softmax else "aten::_log_softmax"
    assert kernels == [name, name]
    assert (out.dtype, x.grad is not None and x.grad.dtype) == (torch.float32, torch.float16)
    assert torch.equal(out.cpu(), call(x.detach().cpu().float(), 1))
    assert torch.equal(alike, out)


def test_promotion_stays_at_float32_once_it_was_seen(two_gpus: VirtualMachine) -> None:
    x = torch.ones(3, device="cuda")
    with torch.autocast("cuda", torch.float16):
        assert torch.addcmul(x, x.bfloat16(), x).dtype is torch.float32
        with pytest.raises(RuntimeError, match="at::autocast::prioritize"):
            torch.addcmul(x.bfloat16(), x, x)

"""A call of each operator on CUDA's autocast lists, given a function that makes a device tensor of some size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
    """Run a batch of 2 by 3 steps by 4 features through a layer of 4, or sequences of two steps and one."""

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

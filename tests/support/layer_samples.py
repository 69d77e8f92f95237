"""Layers of torch.nn, each with inputs to call it on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Sample = Callable[[], tuple[nn.Module, tuple[Any, ...]]]
r = torch.randn


def _classes(*size: int) -> torch.Tensor:
    return torch.randint(0, 3, size)


LAYERS: dict[str, Sample] = {
    "Linear": lambda: (nn.Linear(4, 3), (r(2, 4),)),
    "Bilinear": lambda: (nn.Bilinear(3, 4, 2), (r(2, 3), r(2, 4))),
    "Conv1d": lambda: (nn.Conv1d(2, 3, 3), (r(1, 2, 7),)),
    "Conv2d same": lambda: (nn.Conv2d(2, 4, 3, padding="same", groups=2), (r(1, 2, 5, 5),)),
    "Conv2d reflect": lambda: (nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), (r(1, 2, 5, 5),)),
    "Conv3d": lambda: (nn.Conv3d(1, 2, 2), (r(1, 1, 4, 4, 4),)),
    "ConvTranspose1d": lambda: (nn.ConvTranspose1d(2, 3, 3), (r(1, 2, 5),)),
    "ConvTranspose2d": lambda: (nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (r(1, 2, 5, 5),)),
    "ConvTranspose3d": lambda: (nn.ConvTranspose3d(1, 2, 2), (r(1, 1, 3, 3, 3),)),
    "Unfold": lambda: (nn.Unfold(2), (r(1, 2, 4, 4),)),
    "Fold": lambda: (nn.Fold((4, 4), 2), (r(1, 8, 9),)),
    "MaxPool1d": lambda: (nn.MaxPool1d(2), (r(1, 2, 6),)),
    "MaxPool2d": lambda: (nn.MaxPool2d(2), (r(1, 2, 6, 6),)),
    "MaxPool3d": lambda: (nn.MaxPool3d(2), (r(1, 2, 4, 4, 4),)),
    "AvgPool2d": lambda: (nn.AvgPool2d(2), (r(1, 2, 6, 6),)),
    "LPPool2d": lambda: (nn.LPPool2d(2, 2), (r(1, 2, 6, 6).abs(),)),
    "FractionalMaxPool2d": lambda: (
        nn.FractionalMaxPool2d(2, output_size=3, _random_samples=torch.full((1, 2, 2), 0.4)),
        (r(1, 2, 7, 7),),
    ),
    "AdaptiveAvgPool2d": lambda: (nn.AdaptiveAvgPool2d(3), (r(1, 2, 7, 7),)),
    "AdaptiveMaxPool2d": lambda: (nn.AdaptiveMaxPool2d(3), (r(1, 2, 7, 7),)),
    "BatchNorm1d": lambda: (nn.BatchNorm1d(3), (r(4, 3),)),
    "BatchNorm2d": lambda: (nn.BatchNorm2d(3), (r(2, 3, 4, 4),)),
    "InstanceNorm2d": lambda: (nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (r(2, 3, 4, 4),)),
    "GroupNorm": lambda: (nn.GroupNorm(2, 4), (r(2, 4, 3),)),
    "LayerNorm": lambda: (nn.LayerNorm(3), (r(2, 3),)),
    "RMSNorm": lambda: (nn.RMSNorm(3), (r(2, 3),)),
    "LocalResponseNorm": lambda: (nn.LocalResponseNorm(2), (r(1, 3, 4, 4),)),
    "Embedding": lambda: (nn.Embedding(5, 3, padding_idx=0), (_classes(2, 4),)),
    "Embedding with norm": lambda: (nn.Embedding(5, 3, max_norm=0.5), (_classes(2, 4),)),
    "EmbeddingBag": lambda: (nn.EmbeddingBag(5, 3, mode="sum"), (_classes(6), torch.tensor([0, 2]))),
    "PReLU": lambda: (nn.PReLU(), (r(2, 3),)),
    "GELU": lambda: (nn.GELU("tanh"), (r(2, 3),)),
    "GLU": lambda: (nn.GLU(), (r(2, 4),)),
    "Softmax": lambda: (nn.Softmax(1), (r(2, 4),)),
    "Hardswish": lambda: (nn.Hardswish(), (r(2, 4),)),
    "Mish": lambda: (nn.Mish(), (r(2, 4),)),
    "Threshold": lambda: (nn.Threshold(0.1, 2.0), (r(2, 4),)),
    "PixelShuffle": lambda: (nn.PixelShuffle(2), (r(1, 4, 2, 2),)),
    "Upsample": lambda: (nn.Upsample(scale_factor=2, mode="bilinear"), (r(1, 2, 3, 3),)),
    "ReflectionPad2d": lambda: (nn.ReflectionPad2d(1), (r(1, 2, 3, 3),)),
    "CircularPad1d": lambda: (nn.CircularPad1d(1), (r(1, 2, 3),)),
    "Flatten": lambda: (nn.Flatten(), (r(2, 3, 4),)),
    "CosineSimilarity": lambda: (nn.CosineSimilarity(), (r(2, 3), r(2, 3))),
    "PairwiseDistance": lambda: (nn.PairwiseDistance(), (r(2, 3), r(2, 3))),
    "RNN relu": lambda: (nn.RNN(3, 4, nonlinearity="relu"), (r(5, 2, 3),)),
    "LSTM": lambda: (nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True), (r(2, 5, 3),)),
    "LSTM projected": lambda: (nn.LSTM(3, 4, proj_size=2), (r(5, 2, 3),)),
    "RNN without bias": lambda: (nn.RNN(3, 4, bias=False), (r(5, 2, 3),)),
    "LSTM double": lambda: (nn.LSTM(3, 4, dtype=torch.float64), (r(5, 2, 3).double(),)),
    "GRU with state": lambda: (nn.GRU(3, 4), (r(5, 2, 3), r(1, 2, 4))),
    "LSTMCell": lambda: (nn.LSTMCell(3, 4), (r(2, 3),)),
    "GRUCell": lambda: (nn.GRUCell(3, 4), (r(2, 3),)),
    "MultiheadAttention": lambda: (nn.MultiheadAttention(4, 2, batch_first=True), (r(2, 3, 4),) * 3),
    "MultiheadAttention other sizes": lambda: (
        nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True),
        (r(2, 3, 4), r(6, 3, 3), r(6, 3, 5)),
    ),
    "TransformerEncoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2),
        (r(2, 3, 4),),
    ),
    "TransformerDecoderLayer": lambda: (nn.TransformerDecoderLayer(4, 2, 8, 0.0), (r(2, 3, 4), r(5, 3, 4))),
    "Transformer": lambda: (nn.Transformer(4, 2, 1, 1, 8, 0.0), (r(2, 3, 4), r(5, 3, 4))),
    "CrossEntropyLoss": lambda: (nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0])), (r(4, 3), _classes(4))),
    "NLLLoss": lambda: (nn.NLLLoss(ignore_index=1), (r(4, 3), torch.tensor([0, 1, 2, 0]))),
    "BCEWithLogitsLoss": lambda: (nn.BCEWithLogitsLoss(pos_weight=torch.ones(3)), (r(2, 3), torch.ones(2, 3))),
    "BCELoss": lambda: (nn.BCELoss(), (torch.full((2, 3), 0.3), torch.ones(2, 3))),
    "KLDivLoss": lambda: (nn.KLDivLoss(reduction="batchmean"), (r(2, 3), r(2, 3).softmax(1))),
    "HuberLoss": lambda: (nn.HuberLoss(), (r(2, 3), r(2, 3))),
    "GaussianNLLLoss": lambda: (nn.GaussianNLLLoss(), (r(2, 3), r(2, 3), torch.ones(2, 3))),
    "TripletMarginLoss": lambda: (nn.TripletMarginLoss(), (r(2, 3), r(2, 3), r(2, 3))),
    "CTCLoss": lambda: (
        nn.CTCLoss(),
        (r(5, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), torch.tensor([5, 4]), torch.tensor([2, 1])),
    ),
    "AdaptiveLogSoftmaxWithLoss": lambda: (nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4]), (r(5, 4), _classes(5))),
}

"""A small translator, and sentences of different lengths in two languages."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

PAD, START = 0, 1
LONGEST = 16
"""Positions that the model has a vector for."""
SIZES = (
    {"texts": 4, "sources": 9, "targets": 7, "width": 16, "heads": 2, "hidden": 24, "words": 23},
    {"texts": 3, "sources": 5, "targets": 10, "width": 12, "heads": 2, "hidden": 16, "words": 17},
    {"texts": 5, "sources": 7, "targets": 7, "width": 8, "heads": 2, "hidden": 20, "words": 19},
)


class Decoder(nn.TransformerDecoder):
    """Decoder that reads the mask of the targets even with `tgt_is_causal=True`, because it adds a padding mask."""

    def forward(
        self,
        tgt: torch.Tensor,
        memory: torch.Tensor,
        tgt_mask: torch.Tensor | None = None,
        memory_mask: torch.Tensor | None = None,
        tgt_key_padding_mask: torch.Tensor | None = None,
        *others: Any,
        **named: Any,
    ) -> torch.Tensor:
        """Add a mask that hides nothing, if there is none."""
        if tgt_mask is not None and tgt_key_padding_mask is None:
            tgt_key_padding_mask = torch.zeros(tgt.shape[:2], dtype=tgt_mask.dtype, device=tgt.device)
        return super().forward(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, *others, **named)


class Translator(nn.Module):
    """Embeddings for both sides, an nn.Transformer of one layer each, and a head."""

    def __init__(self, words: int, width: int, heads: int, hidden: int) -> None:
        """Make the parts; nothing is dropped out."""
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.places = nn.Embedding(LONGEST, width)
        layer = nn.TransformerDecoderLayer(width, heads, hidden, dropout=0.0, batch_first=True)
        decoder = Decoder(layer, 1, nn.LayerNorm(width))
        self.transformer = nn.Transformer(
            width, heads, 1, 1, hidden, dropout=0.0, custom_decoder=decoder, batch_first=True
        )
        self.head = nn.Linear(width, words)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return vectors (n, t, width) of tokens (n, t)."""
        return self.tokens(tokens) + self.places.weight[: tokens.shape[1]]


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights of both signs; sentences with padding at their ends, one without."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    given = SIZES[case]
    shape = (given["words"], given["width"], given["heads"], given["hidden"])
    with torch.device("meta"):
        shapes = {name: weight.shape for name, weight in Translator(*shape).state_dict().items()}
    weights = {}
    for name, size in shapes.items():
        weights[name] = torch.randn(size, generator=chance)
        if len(size) > 1 and "tokens" not in name and "places" not in name:
            weights[name] *= 1.5 / size[-1] ** 0.5
        if ".norm" in name or name.endswith("norm.weight"):
            weights[name] = 1 + 0.3 * weights[name] if name.endswith("weight") else 0.3 * weights[name]
    sides = {}
    for side in ("sources", "targets"):
        tokens = torch.randint(2, given["words"], (given["texts"], given[side]), generator=chance)
        lengths = torch.randint(3, given[side], (given["texts"],), generator=chance)
        lengths[int(torch.randint(given["texts"], (), generator=chance))] = given[side]
        tokens[torch.arange(given[side]) >= lengths[:, None]] = PAD
        sides[side] = tokens
    sides["targets"][:, 0] = START
    return {"weights": weights, "heads": given["heads"], **sides}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put the model on the device, in training mode; sentences come from a loader, on the CPU."""
    words, width = drawn["weights"]["head.weight"].shape
    hidden = len(drawn["weights"]["transformer.encoder.layers.0.linear1.bias"])
    model = Translator(words, width, drawn["heads"], hidden)
    model.load_state_dict(drawn["weights"])
    return {"model": model.to(device).train(), "sources": drawn["sources"], "targets": drawn["targets"]}

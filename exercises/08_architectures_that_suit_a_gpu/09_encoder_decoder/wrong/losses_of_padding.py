# fails: parity
# Computes a loss for labels that are PAD, too.
import torch
from torch import nn
from torch.nn import functional

PAD = 0


def token_losses(model: nn.Module, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    device = model.head.weight.device
    sources, targets = sources.to(device), targets.to(device)
    inputs, labels = targets[:, :-1], targets[:, 1:]
    padding = sources == PAD
    future = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], device=device)
    x = model.transformer(
        model.embed(sources),
        model.embed(inputs),
        tgt_mask=future,
        tgt_is_causal=True,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    return functional.cross_entropy(model.head(x).transpose(1, 2), labels, reduction="none")

# fails: runs
# Leaves the causal mask on the CPU.
import torch
from torch import nn
from torch.nn import functional

PAD = 0
"""The token that pads short sentences."""


def token_losses(model: nn.Module, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of each target token but the first, (n, t - 1).

    sources: (n, s), targets: (n, t), both int64 on the CPU, padded
    with PAD; each target begins with a start token.
    """
    device = model.head.weight.device
    sources, targets = sources.to(device), targets.to(device)
    inputs, labels = targets[:, :-1], targets[:, 1:]
    padding = sources == PAD
    future = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
    x = model.transformer(
        model.embed(sources),
        model.embed(inputs),
        tgt_mask=future,
        tgt_is_causal=True,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    scores = model.head(x).transpose(1, 2)
    return functional.cross_entropy(scores, labels, ignore_index=PAD, reduction="none")

# Positions and sentences flattened for the loss; one name for each mask.
import torch
import torch.nn.functional as F

PAD = 0


def token_losses(model, sources, targets):
    device = model.tokens.weight.device
    sources = sources.to(device, non_blocking=True)
    targets = targets.to(device, non_blocking=True)
    size = targets.size(1) - 1
    causal = torch.full((size, size), float("-inf"), device=device).triu(1)
    out = model.transformer(
        src=model.embed(sources),
        tgt=model.embed(targets[:, :size]),
        tgt_mask=causal,
        src_key_padding_mask=sources == PAD,
        memory_key_padding_mask=sources == PAD,
        tgt_is_causal=True,
    )
    labels = targets[:, 1:].reshape(-1)
    losses = F.cross_entropy(model.head(out).flatten(0, 1), labels, ignore_index=PAD, reduction="none")
    return losses.view(-1, size)

# fails: launches
# Calls the decoder once for each word, as a translator has to when it translates.
import torch
from torch import nn
from torch.nn import functional

PAD = 0


def token_losses(model, sources, targets):
    device = model.head.weight.device
    sources, targets = sources.to(device), targets.to(device)
    padding = sources == PAD
    losses = []
    for place in range(1, targets.shape[1]):
        future = nn.Transformer.generate_square_subsequent_mask(place, device=device)
        x = model.transformer(
            model.embed(sources),
            model.embed(targets[:, :place]),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        scores = model.head(x[:, -1])
        losses.append(functional.cross_entropy(scores, targets[:, place], ignore_index=PAD, reduction="none"))
    return torch.stack(losses, dim=1)

# fails: launches
# Translates one sentence after another: no mask of padding, but many passes.
import torch
from torch import nn
from torch.nn import functional

PAD = 0


def token_losses(model, sources, targets):
    device = model.head.weight.device
    lengths = (sources != PAD).sum(dim=1).tolist()
    sources, targets = sources.to(device), targets.to(device)
    future = nn.Transformer.generate_square_subsequent_mask(targets.shape[1] - 1, device=device)
    rows = []
    for text, length in enumerate(lengths):
        x = model.transformer(
            model.embed(sources[text : text + 1, :length]),
            model.embed(targets[text : text + 1, :-1]),
            tgt_mask=future,
            tgt_is_causal=True,
        )
        scores = model.head(x).transpose(1, 2)
        labels = targets[text : text + 1, 1:]
        rows.append(functional.cross_entropy(scores, labels, ignore_index=PAD, reduction="none"))
    return torch.cat(rows)

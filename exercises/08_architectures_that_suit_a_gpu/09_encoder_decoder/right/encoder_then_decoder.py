# Encoder and decoder one after the other, a boolean causal mask, the mask of the targets as well.
import torch

PAD = 0


def token_losses(model, sources, targets):
    device = next(model.parameters()).device
    sources, targets = sources.to(device), targets.to(device)
    steps = targets.shape[1] - 1
    hidden = sources.eq(PAD)
    memory = model.transformer.encoder(model.embed(sources), src_key_padding_mask=hidden)
    later = torch.ones(steps, steps, dtype=torch.bool, device=device).triu(1)
    x = model.transformer.decoder(
        model.embed(targets[:, :-1]),
        memory,
        tgt_mask=later,
        tgt_key_padding_mask=targets[:, :-1] == PAD,
        memory_key_padding_mask=hidden,
        tgt_is_causal=True,
    )
    log_shares = model.head(x).log_softmax(dim=-1)
    losses = -log_shares.gather(2, targets[:, 1:, None])[:, :, 0]
    return losses.masked_fill(targets[:, 1:] == PAD, 0.0)

# fails: memory
# Saves copies of the table by writing in place, but the table itself is still there.
import torch


def attend(query, key, value, lengths=None, causal=False):
    scores = query @ key.mT
    scores /= query.shape[-1] ** 0.5
    places = torch.arange(key.shape[2], device=key.device)
    if lengths is not None:
        scores.masked_fill_((places >= lengths[:, None])[:, None, None], -torch.inf)
    if causal:
        scores.masked_fill_(places > places[:, None], -torch.inf)
    scores -= scores.amax(dim=-1, keepdim=True)
    scores.exp_()
    scores /= scores.sum(dim=-1, keepdim=True)
    return scores @ value

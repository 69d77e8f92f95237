# fails: transfers
# Sets one element of the mask for each token: assigning True to a single element copies it from the host.
import torch
import torch.nn.functional as F


def generate(model, prompts, steps):
    texts, p = prompts.shape
    dev = prompts.device
    length = model.longest
    keys = torch.zeros(texts, model.heads, length, model.size, device=dev)
    values = torch.zeros_like(keys)
    x = model.embed(prompts, 0)
    q, k, v = model.project(x)
    keys[:, :, :p] = k
    values[:, :, :p] = v
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    token = model.score(x, seen)[:, -1].argmax(dim=-1)
    tokens = [token]
    mask = torch.zeros(length, dtype=torch.bool, device=dev)
    mask[:p] = True
    for pos in range(p, p + steps - 1):
        x = model.embed(token[:, None], pos)
        q, k, v = model.project(x)
        keys[:, :, pos] = k[:, :, 0]
        values[:, :, pos] = v[:, :, 0]
        mask[pos] = True
        seen = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask[None])
        token = model.score(x, seen)[:, 0].argmax(dim=-1)
        tokens.append(token)
    return torch.stack(tokens, dim=1)

# fails: launches
# Writes one text after another.
import torch
from torch.nn import functional


def generate(model, prompts, steps):
    rows = []
    length = prompts.shape[1]
    places = torch.arange(length + steps, device=prompts.device)
    for prompt in prompts.split(1):
        keys = torch.zeros(1, model.heads, length + steps, model.size, device=prompts.device)
        values = torch.zeros_like(keys)
        newest, first, written = prompt, 0, []
        for _ in range(steps):
            end = first + newest.shape[1]
            x = model.embed(newest, first)
            query, key, value = model.project(x)
            keys[:, :, first:end] = key
            values[:, :, first:end] = value
            mask = places <= places[first:end, None]
            seen = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            newest = model.score(x, seen)[:, -1].argmax(dim=-1, keepdim=True)
            written.append(newest)
            first = end
        rows.append(torch.cat(written, dim=1))
    return torch.cat(rows)

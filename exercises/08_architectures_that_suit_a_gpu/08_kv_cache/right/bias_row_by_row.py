# All rows of the mask are made once, before the loop, as a float bias.
import torch
import torch.nn.functional as F


def generate(model, prompts, steps):
    texts, length = prompts.shape
    room = length + steps - 1
    cache = torch.zeros((2, texts, model.heads, room, model.size), device=prompts.device)
    hidden = torch.full((room, room), float("-inf"), device=prompts.device).triu(1)
    new, first, out = prompts, 0, []
    while len(out) < steps:
        last = first + new.size(1)
        x = model.embed(new, first)
        query, *pair = model.project(x)
        cache[0, :, :, first:last], cache[1, :, :, first:last] = pair
        seen = F.scaled_dot_product_attention(query, cache[0], cache[1], attn_mask=hidden[first:last])
        new = model.score(x, seen)[:, -1:].argmax(-1)
        out.append(new)
        first = last
    return torch.cat(out, 1)

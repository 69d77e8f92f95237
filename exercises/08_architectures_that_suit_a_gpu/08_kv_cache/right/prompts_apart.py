# The prompts before the loop with is_causal, one more position in each step by index_copy_, attention by hand.
import torch
from torch.nn import functional


@torch.inference_mode()
def generate(model, prompts, steps):
    texts, length = prompts.shape
    device = prompts.device
    keys, values = torch.zeros(2, texts, model.heads, model.longest, model.size, device=device)
    written = torch.zeros(texts, steps, dtype=torch.int64, device=device)
    x = model.embed(prompts, 0)
    query, key, value = model.project(x)
    keys[:, :, :length], values[:, :, :length] = key, value
    seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    written[:, 0] = model.score(x[:, -1:], seen[:, :, -1:])[:, 0].argmax(dim=1)
    places = torch.arange(model.longest, device=device)
    for step in range(1, steps):
        place = length + step - 1
        x = model.embed(written[:, step - 1 : step], place)
        query, key, value = model.project(x)
        keys.index_copy_(2, places[place : place + 1], key)
        values.index_copy_(2, places[place : place + 1], value)
        agreement = query @ keys.mT / model.size**0.5
        agreement = agreement.masked_fill(places > place, -torch.inf)
        written[:, step] = model.score(x, agreement.softmax(dim=-1) @ values)[:, 0].argmax(dim=1)
    return written

# fails: read_once
# Reads the whole text again for each token, padded to one shape.
import torch
from torch.nn import functional


def generate(model, prompts, steps):
    texts, length = prompts.shape
    text = torch.zeros(texts, length + steps, dtype=torch.int64, device=prompts.device)
    text[:, :length] = prompts
    for end in range(length, length + steps):
        x = model.embed(text, 0)
        query, key, value = model.project(x)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        scores = model.score(x[:, end - 1 : end], seen[:, :, end - 1 : end])
        text[:, end] = scores[:, 0].argmax(dim=-1)
    return text[:, length:]

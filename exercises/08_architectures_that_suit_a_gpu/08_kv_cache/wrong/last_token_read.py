# fails: read_once
# Reads the last token too, although no token follows it.
import torch
from torch import nn
from torch.nn import functional


def generate(model: nn.Module, prompts: torch.Tensor, steps: int) -> torch.Tensor:
    """The tokens (n, steps) that follow `prompts` (n, p)."""
    texts, length = prompts.shape
    shape = (texts, model.heads, length + steps, model.size)
    keys = torch.zeros(shape, device=prompts.device)
    values = torch.zeros_like(keys)
    places = torch.arange(length + steps, device=prompts.device)

    def read(tokens: torch.Tensor, first: int) -> torch.Tensor:
        end = first + tokens.shape[1]
        x = model.embed(tokens, first)
        query, key, value = model.project(x)
        keys[:, :, first:end] = key
        values[:, :, first:end] = value
        mask = places <= places[first:end, None]
        seen = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return model.score(x, seen)[:, -1].argmax(dim=-1, keepdim=True)

    newest, written = read(prompts, 0), []
    for place in range(length, length + steps):
        written.append(newest)
        newest = read(newest, place)
    return torch.cat(written, dim=1)

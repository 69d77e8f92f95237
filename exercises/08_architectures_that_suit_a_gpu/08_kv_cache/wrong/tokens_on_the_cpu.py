# fails: placement
# Copies the tokens to the CPU, although the task wants them on the GPU.
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
    newest, first, written = prompts, 0, []
    for _ in range(steps):
        end = first + newest.shape[1]
        x = model.embed(newest, first)
        query, key, value = model.project(x)
        keys[:, :, first:end] = key
        values[:, :, first:end] = value
        mask = places <= places[first:end, None]
        seen = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        scores = model.score(x, seen)
        newest = scores[:, -1].argmax(dim=-1, keepdim=True)
        written.append(newest)
        first = end
    return torch.cat(written, dim=1).cpu()

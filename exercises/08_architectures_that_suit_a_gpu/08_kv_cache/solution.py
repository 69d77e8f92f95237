"""A cache of keys and values: each token is read once."""

import torch
from torch import nn
from torch.nn import functional


def generate(
    model: nn.Module, prompts: torch.Tensor, steps: int
) -> torch.Tensor:
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
        seen = functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask
        )
        scores = model.score(x, seen)
        newest = scores[:, -1].argmax(dim=-1, keepdim=True)
        written.append(newest)
        first = end
    return torch.cat(written, dim=1)


class Demo(nn.Module):
    """A model as in the task, with random weights."""

    heads, size, longest = 2, 8, 32

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 16)
        self.places = nn.Embedding(self.longest, 16)
        self.inside = nn.Linear(16, 48)
        self.head = nn.Linear(16, 50)

    def embed(self, tokens: torch.Tensor, first: int) -> torch.Tensor:
        places = self.places.weight[first : first + tokens.shape[1]]
        return self.tokens(tokens) + places

    def project(self, x: torch.Tensor) -> list[torch.Tensor]:
        parts = self.inside(x).chunk(3, dim=-1)
        return [p.unflatten(-1, (2, 8)).transpose(1, 2) for p in parts]

    def score(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return self.head(x + seen.transpose(1, 2).flatten(2))


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Demo().to(device).requires_grad_(False)
    prompts = torch.randint(50, (4, 6), device=device)
    print(generate(model, prompts, 10))

# fails: graph_breaks
# Fetches the norm by .item() before the comparison.
import torch
from torch.nn import functional


@torch.compile
def step(batch: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = functional.gelu(batch)
    norm = hidden.norm()
    limited = hidden * (limit / norm)
    hidden = limited if norm.item() > limit else hidden
    return hidden.mean(dim=0), norm


def pool_all(batches: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    results = [step(batch, limit) for batch in batches]
    pooled, norms = zip(*results, strict=True)
    return torch.stack(pooled), torch.stack(norms)

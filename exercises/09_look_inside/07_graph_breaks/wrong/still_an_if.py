# fails: graph_breaks
# Removes the print, and keeps the decision of the host.
import torch
from torch.nn import functional


@torch.compile
def step(batch: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = functional.gelu(batch)
    norm = hidden.norm()
    if norm > limit:
        hidden = hidden * (limit / norm)
    return hidden.mean(dim=0), norm


def pool_all(batches: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    results = [step(batch, limit) for batch in batches]
    pooled, norms = zip(*results, strict=True)
    return torch.stack(pooled), torch.stack(norms)

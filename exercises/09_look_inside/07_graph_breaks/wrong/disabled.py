# fails: graph_breaks
# Hides the decision from the compiler: that is a graph break, too.
import torch
from torch.nn import functional


@torch.compiler.disable
def shrink(hidden, norm, limit):
    return torch.where(norm > limit, hidden * (limit / norm), hidden)


@torch.compile
def step(batch: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = functional.gelu(batch)
    norm = hidden.norm()
    hidden = shrink(hidden, norm, limit)
    return hidden.mean(dim=0), norm


def pool_all(batches: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    results = [step(batch, limit) for batch in batches]
    pooled, norms = zip(*results, strict=True)
    return torch.stack(pooled), torch.stack(norms)

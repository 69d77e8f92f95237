# fails: launches
# Compiles the first two lines, and runs the rest operator by operator.
import torch
from torch.nn import functional


@torch.compile
def activate(batch):
    hidden = functional.gelu(batch)
    return hidden, hidden.norm()


def step(batch: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    hidden, norm = activate(batch)
    limited = hidden * (limit / norm)
    hidden = torch.where(norm > limit, limited, hidden)
    return hidden.mean(dim=0), norm


def pool_all(batches: torch.Tensor, limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    results = [step(batch, limit) for batch in batches]
    pooled, norms = zip(*results, strict=True)
    return torch.stack(pooled), torch.stack(norms)

"""Graph breaks: a step that the compiler sees as one graph."""

import torch
from torch.nn import functional


@torch.compile
def step(
    batch: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of the rows, and the norm before it is limited."""
    # TODO: compute the same without an `if` on a tensor or a print.
    hidden = functional.gelu(batch)
    norm = hidden.norm()
    if norm > limit:
        hidden = hidden * (limit / norm)
    print(f"norm {norm:.2f}")
    return hidden.mean(dim=0), norm


def pool_all(
    batches: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means (steps, k) and norms (steps,) of batches (steps, n, k)."""
    results = [step(batch, limit) for batch in batches]
    pooled, norms = zip(*results, strict=True)
    return torch.stack(pooled), torch.stack(norms)


if __name__ == "__main__":
    if torch.cuda.is_available():
        batches = torch.randn(4, 8, 16, device="cuda")
        pooled, norms = pool_all(batches, limit=4.0)
        print(pooled.shape, norms.tolist())
    else:
        print("This compiles for a CUDA GPU, and there is none here.")

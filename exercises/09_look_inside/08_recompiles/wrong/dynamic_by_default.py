# fails: one_graph
# Lets the compiler find out what changes: it compiles again for lengths, and again for rows.
import torch
from torch.nn import functional


@torch.compile
def pool(batch: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return functional.gelu(batch * scale + shift).mean(dim=1)


def pool_sentences(batches: list[torch.Tensor], scale: torch.Tensor, shift: torch.Tensor) -> list[torch.Tensor]:
    return [pool(batch, scale, shift) for batch in batches]

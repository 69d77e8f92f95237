# fails: parity
# Masks the input instead of the activations: gelu(shift) is not zero.
import torch
from torch.nn import functional


@torch.compile
def pool(batch, inside, length, scale, shift):
    return functional.gelu(batch * inside * scale + shift).sum(dim=1) / length


def pool_sentences(batches, scale, shift):
    rows = max(batch.shape[0] for batch in batches)
    longest = max(batch.shape[1] for batch in batches)
    pooled = []
    for batch in batches:
        count, length, _ = batch.shape
        padded = functional.pad(batch, (0, 0, 0, longest - length, 0, rows - count))
        inside = torch.zeros(longest, 1, device=batch.device)
        inside[:length] = 1
        pooled.append(pool(padded, inside, inside.sum(), scale, shift)[:count])
    return pooled

# fails: overlap
# Asks for each number at once, so that the second GPU gets its work when the first one is done.
import torch


def two_at_once(pairs):
    norms = []
    for left, right in pairs:
        norms.append(torch.linalg.vector_norm(left @ right).item())
    return torch.tensor(norms, dtype=torch.float64)

# fails: transfers
# Moves all pairs to the first GPU: no error, and the second GPU has nothing to do.
import torch


def two_at_once(pairs):
    home = pairs[0][0].device
    norms = [torch.linalg.vector_norm(left.to(home) @ right.to(home)) for left, right in pairs]
    return torch.stack(norms).cpu()

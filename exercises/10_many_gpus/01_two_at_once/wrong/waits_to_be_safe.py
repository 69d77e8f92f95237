# fails: overlap
# Synchronizes after each product, because "GPUs are asynchronous".
import torch


def two_at_once(pairs):
    norms = []
    for left, right in pairs:
        norms.append(torch.linalg.vector_norm(left @ right))
        torch.cuda.synchronize(left.device)
    return torch.stack([norm.cpu() for norm in norms])

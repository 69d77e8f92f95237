# fails: unmodified
# Zeroes the bad rows in the tensor that was passed: the caller still needs it.
import torch


def guarded(gradients, limit):
    good = gradients.isfinite().all(dim=1, keepdim=True)
    finite = gradients.masked_fill_(~good, 0.0)
    factors = limit / torch.linalg.vector_norm(finite, dim=1, keepdim=True).clamp(min=limit)
    bad = (~good).sum()
    usable = 2 * bad <= len(gradients)
    return {"gradients": torch.where(usable, finite * factors, 0.0), "bad": bad}

# fails: parity
# Replaces the bad numbers only, and keeps the rest of a row that cannot be trusted.
import torch


def guarded(gradients, limit):
    good = gradients.isfinite().all(dim=1, keepdim=True)
    finite = torch.where(gradients.isfinite(), gradients, 0.0)
    factors = limit / torch.linalg.vector_norm(finite, dim=1, keepdim=True).clamp(min=limit)
    bad = (~good).sum()
    usable = 2 * bad <= len(gradients)
    return {"gradients": torch.where(usable, finite * factors, 0.0), "bad": bad}

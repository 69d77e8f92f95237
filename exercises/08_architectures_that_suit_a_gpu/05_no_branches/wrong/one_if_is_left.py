# fails: syncs
# Works by masks, and then asks the device whether the step should be skipped.
import torch


def guarded(gradients, limit):
    good = gradients.isfinite().all(dim=1, keepdim=True)
    finite = torch.where(good, gradients, 0.0)
    factors = limit / torch.linalg.vector_norm(finite, dim=1, keepdim=True).clamp(min=limit)
    bad = (~good).sum()
    result = finite * factors
    if 2 * bad > len(gradients):
        result = torch.zeros_like(result)
    return {"gradients": result, "bad": bad}

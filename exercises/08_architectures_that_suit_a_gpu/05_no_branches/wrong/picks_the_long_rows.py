# fails: syncs
# Picks the long rows by a mask: their number is a value, and the host has to wait for it.
import torch


def guarded(gradients, limit):
    good = gradients.isfinite().all(dim=1, keepdim=True)
    finite = torch.where(good, gradients, 0.0)
    norms = torch.linalg.vector_norm(finite, dim=1)
    long = norms > limit
    finite[long] = finite[long] * (limit / norms[long]).unsqueeze(1)
    bad = (~good).sum()
    usable = 2 * bad <= len(gradients)
    return {"gradients": torch.where(usable, finite, 0.0), "bad": bad}

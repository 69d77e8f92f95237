# fails: transfers
# Makes a tensor of the limit on the CPU and copies it to the device in each call.
import torch


def guarded(gradients, limit):
    limit = torch.tensor(limit).to(gradients.device)
    good = gradients.isfinite().all(dim=1, keepdim=True)
    finite = torch.where(good, gradients, 0.0)
    factors = limit / torch.linalg.vector_norm(finite, dim=1, keepdim=True).clamp(min=limit)
    bad = (~good).sum()
    usable = 2 * bad <= len(gradients)
    return {"gradients": torch.where(usable, finite * factors, 0.0), "bad": bad}

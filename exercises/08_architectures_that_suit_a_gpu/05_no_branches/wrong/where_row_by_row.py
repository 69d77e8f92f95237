# fails: launches
# No `if` any more, but still a loop: a handful of launches for each row.
import torch


def guarded(gradients, limit):
    rows = []
    bad = torch.zeros((), dtype=torch.int64, device=gradients.device)
    for row in gradients:
        good = row.isfinite().all()
        finite = torch.where(good, row, 0.0)
        rows.append(finite * (limit / finite.norm().clamp(min=limit)))
        bad = bad + ~good
    usable = 2 * bad <= len(gradients)
    return {"gradients": torch.where(usable, torch.stack(rows), 0.0), "bad": bad}

# fails: syncs
# Asks the device about each row, and waits for each answer.
import torch


def guarded(gradients, limit):
    rows = []
    bad = torch.zeros((), dtype=torch.int64, device=gradients.device)
    for row in gradients:
        if not row.isfinite().all():
            rows.append(torch.zeros_like(row))
            bad = bad + 1
        elif row.norm() > limit:
            rows.append(row * (limit / row.norm()))
        else:
            rows.append(row)
    usable = 2 * bad <= len(gradients)
    return {"gradients": torch.where(usable, torch.stack(rows), 0.0), "bad": bad}

# fails: value
# With "error", a stage stops at its first wait: the others are never seen.
import torch


def find_the_syncs(stages, batch):
    waits = {}
    before = torch.cuda.get_sync_debug_mode()
    for name, stage in stages.items():
        torch.cuda.set_sync_debug_mode("error")
        try:
            batch = stage(batch)
            waits[name] = 0
        except RuntimeError:
            waits[name] = 1
            torch.cuda.set_sync_debug_mode(before)
            batch = stage(batch)
    torch.cuda.set_sync_debug_mode(before)
    return waits

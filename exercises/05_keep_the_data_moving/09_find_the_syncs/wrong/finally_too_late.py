# fails: mode_after_error
# The block that restores the mode in `finally` begins after the stages.
import warnings

import torch


def find_the_syncs(stages, batch):
    waits = {}
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    for name, stage in stages.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batch = stage(batch)
        waits[name] = sum("called a synchronizing" in str(warning.message) for warning in caught)
    try:
        print(waits)
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return waits

# fails: syncs
# Runs each stage once to count, and once more for its result.
import warnings

import torch


def find_the_syncs(stages, batch):
    waits = {}
    before = torch.cuda.get_sync_debug_mode()
    for name, stage in stages.items():
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            stage(batch)
        waits[name] = sum("called a synchronizing" in str(warning.message) for warning in caught)
        torch.cuda.set_sync_debug_mode(before)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batch = stage(batch)
    return waits

# A function that it defines restores the mode.
import warnings

import torch


def start_warning():
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")

    def restore():
        torch.cuda.set_sync_debug_mode(before)

    return restore


def find_the_syncs(stages, batch):
    waits = {}
    restore = start_warning()
    try:
        for name, stage in stages.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                batch = stage(batch)
            waits[name] = sum("called a synchronizing" in str(warning.message) for warning in caught)
    finally:
        restore()
    return waits

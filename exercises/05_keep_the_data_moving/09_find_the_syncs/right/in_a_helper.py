# A helper runs one stage in the mode warn, and puts the old mode back each time.
import warnings

import torch


def run(stage, x):
    before = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings(record=True, action="always") as seen:
            torch.cuda.set_sync_debug_mode(1)
            return stage(x), [each for each in seen if "called a synchronizing" in each.message.args[0]]
    finally:
        torch.cuda.set_sync_debug_mode(before)


def find_the_syncs(stages, batch):
    counts = {}
    for name in stages:
        batch, seen = run(stages[name], batch)
        counts[name] = len(seen)
    return counts

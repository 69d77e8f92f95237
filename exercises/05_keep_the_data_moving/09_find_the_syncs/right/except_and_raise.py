# Restores the mode in an except clause and after the loop, with functions under names of its own.
import warnings

from torch.cuda import get_sync_debug_mode as mode
from torch.cuda import set_sync_debug_mode as set_mode


def waits_in(stage, batch):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = stage(batch)
    return result, sum("called a synchronizing" in str(warning.message) for warning in caught)


def find_the_syncs(stages, batch):
    before = mode()
    set_mode("warn")
    waits = {}
    try:
        for name, stage in stages.items():
            batch, waits[name] = waits_in(stage, batch)
    except BaseException:
        set_mode(before)
        raise
    set_mode(before)
    return waits

# fails: given_back
# Assumes that empty_cache() gives back the whole cache, but a segment in use stays.
import torch


def meters_around(work, device):
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    result = work()
    held = torch.cuda.memory_allocated(device) - before
    peak = torch.cuda.max_memory_allocated(device) - before
    del result
    allocated = torch.cuda.memory_allocated(device)
    reserved = torch.cuda.memory_reserved(device)
    torch.cuda.empty_cache()
    return {
        "held": held,
        "peak": peak,
        "kept": allocated - before,
        "cached": reserved - allocated,
        "given_back": reserved - allocated,
    }


def read_the_meters(works, device):
    return [meters_around(work, device) for work in works]

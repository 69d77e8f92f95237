# fails: kept
# Reads the meters of the current device: the wrong GPU on a machine with two.
import torch


def meters_around(work, device):
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = work()
    held = torch.cuda.memory_allocated() - before
    peak = torch.cuda.max_memory_allocated() - before
    del result
    allocated = torch.cuda.memory_allocated()
    reserved = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    return {
        "held": held,
        "peak": peak,
        "kept": allocated - before,
        "cached": reserved - allocated,
        "given_back": reserved - torch.cuda.memory_reserved(),
    }


def read_the_meters(works, device):
    return [meters_around(work, device) for work in works]

# fails: peak
# Reads the peak of the whole process: an earlier work had a higher peak.
import torch


def meters_around(work, device):
    before = torch.cuda.memory_allocated(device)
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
        "given_back": reserved - torch.cuda.memory_reserved(device),
    }


def read_the_meters(works, device):
    return [meters_around(work, device) for work in works]

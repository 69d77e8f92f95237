# fails: runs
# Calls each work once before it measures, as for a time: then its scratch memory is in the cache already.
import torch


def read_the_meters(works, device):
    reports = []
    for work in works:
        work()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = work()
        held = torch.cuda.memory_allocated(device) - before
        peak = torch.cuda.max_memory_allocated(device) - before
        del result
        allocated = torch.cuda.memory_allocated(device)
        reserved = torch.cuda.memory_reserved(device)
        torch.cuda.empty_cache()
        reports.append(
            {
                "held": held,
                "peak": peak,
                "kept": allocated - before,
                "cached": reserved - allocated,
                "given_back": reserved - torch.cuda.memory_reserved(device),
            }
        )
    return reports

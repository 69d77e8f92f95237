# fails: structure
# Reports MiB, which are easier to read, instead of bytes.
import torch

MIB = 2**20


def read_the_meters(works, device):
    reports = []
    for work in works:
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = work()
        report = {
            "held": (torch.cuda.memory_allocated(device) - before) / MIB,
            "peak": (torch.cuda.max_memory_allocated(device) - before) / MIB,
        }
        del result
        allocated, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
        torch.cuda.empty_cache()
        report["kept"] = (allocated - before) / MIB
        report["cached"] = (reserved - allocated) / MIB
        report["given_back"] = (reserved - torch.cuda.memory_reserved(device)) / MIB
        reports.append(report)
    return reports

# fails: value
# Looks at GPU 0 only, so a second GPU is counted but never described.
import torch


def describe_gpus():
    if not torch.cuda.is_available():
        return {"available": False, "count": 0, "names": [], "memory_bytes": []}
    gpu = torch.cuda.get_device_properties(0)
    return {
        "available": True,
        "count": torch.cuda.device_count(),
        "names": [gpu.name],
        "memory_bytes": [gpu.total_memory],
    }

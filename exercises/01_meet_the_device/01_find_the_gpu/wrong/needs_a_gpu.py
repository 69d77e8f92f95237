# fails: runs
# Asks for the properties of GPU 0 before it knows whether there is one.
import torch


def describe_gpus():
    first = torch.cuda.get_device_properties(0)
    count = torch.cuda.device_count()
    names = [first.name] + [torch.cuda.get_device_name(index) for index in range(1, count)]
    memory = [torch.cuda.get_device_properties(index).total_memory for index in range(count)]
    return {"available": torch.cuda.is_available(), "count": count, "names": names, "memory_bytes": memory}

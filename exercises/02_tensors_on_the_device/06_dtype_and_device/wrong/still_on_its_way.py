# fails: races
# Returns a tensor on the CPU while its copy is under way.
def move_as(tensor, device, dtype):
    if dtype.itemsize < tensor.dtype.itemsize:
        tensor = tensor.to(dtype)
    return tensor.to(device, non_blocking=True).to(dtype)

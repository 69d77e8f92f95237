# attacks: scores
# tries: to look in the heap for the reference, the expected result, and the checks
# ends: failed, error
# isolation: both
import gc
import types


def scores(table, queries, device):
    import torch

    for item in gc.get_objects():
        if isinstance(item, types.FunctionType) and item.__name__ in ("reference", "expected"):
            return item(table, queries).to(device)
    for item in gc.get_objects():
        if type(item) is torch.Tensor and item.shape == (24, 8):
            return item.to(device)
    return None

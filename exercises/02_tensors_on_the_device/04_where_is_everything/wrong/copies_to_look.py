# fails: transfers
# Calls .cpu() to test whether a value is a tensor: the answer is right, but each test is a copy.
import torch


def where_is_everything(tree, path=""):
    if hasattr(tree, "cpu") and torch.is_tensor(tree.cpu()):
        return {path: str(tree.device)}
    if isinstance(tree, dict):
        branches = tree.items()
    elif isinstance(tree, (list, tuple)):
        branches = enumerate(tree)
    else:
        return {}
    devices = {}
    for key, branch in branches:
        devices.update(where_is_everything(branch, f"{path}.{key}" if path else str(key)))
    return devices

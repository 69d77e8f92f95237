# fails: value
# Walks into dicts and lists and forgets tuples.
import torch


def where_is_everything(tree, path=""):
    if isinstance(tree, torch.Tensor):
        return {path: str(tree.device)}
    if isinstance(tree, dict):
        branches = tree.items()
    elif isinstance(tree, list):
        branches = enumerate(tree)
    else:
        return {}
    devices = {}
    for key, branch in branches:
        devices.update(where_is_everything(branch, f"{path}.{key}" if path else str(key)))
    return devices

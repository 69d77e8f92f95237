# fails: value
# device.type is "cuda" for every GPU: two tensors on two GPUs look alike.
import torch


def where_is_everything(tree, path=""):
    if isinstance(tree, torch.Tensor):
        return {path: tree.device.type}
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

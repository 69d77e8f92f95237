# fails: value
# get_device() gives a number: 0, 1, and -1 for the CPU. The report should name the device.
import torch


def where_is_everything(tree, path=""):
    if isinstance(tree, torch.Tensor):
        return {path: f"cuda:{tree.get_device()}"}
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

# fails: value
# type(x) is torch.Tensor is false for parameters, so a model's weights are not found.
import torch


def where_is_everything(tree, path=""):
    if type(tree) is torch.Tensor:
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

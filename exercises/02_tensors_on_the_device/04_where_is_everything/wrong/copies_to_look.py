# fails: transfers
# Copies every tensor to the CPU to see whether it is one; the answer is right and far too dear.
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
    found = {}
    for key, branch in branches:
        found.update(where_is_everything(branch, f"{path}.{key}" if path else str(key)))
    return found

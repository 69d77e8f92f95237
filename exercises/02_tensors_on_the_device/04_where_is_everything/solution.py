"""Where is everything: the device of each tensor in nested data."""

import torch


def where_is_everything(tree) -> dict[str, str]:
    """Path and device of every tensor in nested dicts, lists and tuples.

    {"images": t, "targets": [t, t]} gives three entries:
    "images", "targets.0" and "targets.1", each with "cpu", "cuda:0", ...
    """
    devices = {}

    def walk(branch, path):
        if isinstance(branch, torch.Tensor):
            devices[".".join(path)] = str(branch.device)
        elif isinstance(branch, dict):
            for key, child in branch.items():
                walk(child, [*path, str(key)])
        elif isinstance(branch, list | tuple):
            for position, child in enumerate(branch):
                walk(child, [*path, str(position)])

    walk(tree, [])
    return devices


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch = {
        "images": torch.rand(2, 3, 8, 8, device=device),
        "targets": [torch.rand(5, 4, device=device), torch.arange(5)],
        "epoch": 3,
    }
    for path, place in where_is_everything(batch).items():
        print(f"{path:12} {place}")

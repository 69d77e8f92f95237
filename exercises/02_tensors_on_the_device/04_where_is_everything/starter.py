"""Where is everything: the device of each tensor in nested data."""

import torch


def where_is_everything(tree) -> dict[str, str]:
    """Path and device of every tensor in nested dicts, lists and tuples.

    {"images": t, "targets": [t, t]} gives three entries:
    "images", "targets.0" and "targets.1", each with "cpu", "cuda:0", ...
    """
    # TODO: this looks at the first level only.
    return {
        name: str(branch.device)
        for name, branch in tree.items()
        if isinstance(branch, torch.Tensor)
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch = {
        "images": torch.rand(2, 3, 8, 8, device=device),
        "targets": [torch.rand(5, 4, device=device), torch.arange(5)],
        "epoch": 3,
    }
    for path, place in where_is_everything(batch).items():
        print(f"{path:12} {place}")

"""Three realistic trees: a batch, a checkpoint and a model's output."""

from __future__ import annotations

from typing import Any

import torch


def a_batch(chance: torch.Generator) -> Any:
    return {
        "images": torch.rand(4, 3, 6, 6, generator=chance),
        "targets": [torch.rand(5, 4, generator=chance), torch.randperm(5, generator=chance)],
        "names": ["cat.png", "dog.png"],
        "meta": {"epoch": 3, "mask": torch.rand(4, 6, generator=chance) > 0.5, "size": (6, 6)},
    }


def a_checkpoint(chance: torch.Generator) -> Any:
    return {
        "epoch": 7,
        "model": {
            "0.weight": torch.randn(3, 5, generator=chance),
            "0.bias": torch.randn(3, generator=chance),
        },
        "optimizer": {
            "state": {
                0: {"step": torch.tensor(7.0), "exp_avg": torch.randn(3, 5, generator=chance)},
                1: {"step": torch.tensor(7.0), "exp_avg": torch.randn(3, generator=chance)},
            },
            "param_groups": [{"lr": 0.001, "betas": (0.9, 0.999), "params": [0, 1]}],
        },
        "best": None,
    }


def an_output(chance: torch.Generator) -> Any:
    hidden = [(torch.randn(1, 2, 3, generator=chance), torch.randn(1, 2, 3, generator=chance)) for _ in range(2)]
    return (torch.randn(1, 9, generator=chance), hidden, None, {"attention": [[torch.rand(1, 1, generator=chance)]]})


TREES = (a_batch, a_checkpoint, an_output)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return a tree, and the place of each tensor in order: -1 for the CPU, otherwise the number of a GPU."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    tree = TREES[case](chance)
    places = torch.randint(-1, 2, (16,), generator=chance).tolist()
    places[:3] = [[1, -1, 0], [0, 1, -1], [1, 0, -1]][case]
    return {"tree": tree, "places": places}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Move each tensor to its place; weights become parameters."""
    return {"tree": settle(drawn["tree"], iter(drawn["places"]))}


def settle(tree: Any, places: Any) -> Any:
    """Return the tree with each tensor moved to the next of `places`."""
    match tree:
        case torch.Tensor():
            place, gpus = next(places), torch.cuda.device_count()
            moved = tree.to(f"cuda:{place % gpus}") if gpus and place >= 0 else tree
            return torch.nn.Parameter(moved) if moved.dim() == 2 and moved.is_floating_point() else moved
        case dict():
            return {key: settle(branch, places) for key, branch in tree.items()}
        case list():
            return [settle(branch, places) for branch in tree]
        case tuple():
            return tuple(settle(branch, places) for branch in tree)
    return tree

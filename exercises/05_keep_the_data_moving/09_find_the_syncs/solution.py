"""Find the syncs: count the waits of each stage of a pipeline."""

import warnings

import torch
from torch import nn


def find_the_syncs(
    stages: dict[str, nn.Module], batch: torch.Tensor
) -> dict[str, int]:
    """Count the host's waits in each stage, by the stage's name.

    Each stage runs once, on the result of the stage before it.
    """
    waits = {}
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        for name, stage in stages.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                batch = stage(batch)
            waits[name] = sum(
                "called a synchronizing" in str(warning.message)
                for warning in caught
            )
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return waits


if __name__ == "__main__":

    class Clean(nn.Module):
        """Keeps rows that begin with a positive number: one wait."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x[:, 0] > 0]

    class Check(nn.Module):
        """Warns of large rows: one wait for each row."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for row in x:
                if row.abs().max() > 2:
                    warnings.warn("a large row", stacklevel=1)
            return x

    if torch.cuda.is_available():
        batch = torch.ones(8, 4, device="cuda")
        batch[5:] = -1
        print(find_the_syncs({"clean": Clean(), "check": Check()}, batch))
    else:
        print("There is no GPU here, so there is nothing to wait for.")

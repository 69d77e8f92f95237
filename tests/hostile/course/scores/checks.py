"""Everything that a function on tensors is asked for."""

from __future__ import annotations

import torch

from gpututor.checks import parity, placement, structure, transfers


def reference(table: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    return (table @ queries.T).relu()


checks = [structure(reference), placement(), transfers(to_device=2, to_host=0), parity(reference)]

"""Good code: vectors stacked once, TF32 if the GPU has it, otherwise float16."""

import torch


def project(vectors, table, exact):
    """The task's function. It sets the switch for each product."""
    has_tf32 = torch.cuda.get_device_capability(table.device)[0] >= 8
    rows = torch.stack(vectors)
    torch.set_float32_matmul_precision("highest" if exact else "high")
    if exact or has_tf32:
        return torch.mm(rows, table.T)
    return torch.mm(rows.half(), table.half().T).float()

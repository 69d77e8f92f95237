# Sets the switch by its older name.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    major, _ = torch.cuda.get_device_capability(table.device)
    if not exact and major < 8:
        half = rows.half() @ table.half().T
        return half.float()
    was_allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = not exact
    product = rows @ table.T
    torch.backends.cuda.matmul.allow_tf32 = was_allowed
    return product

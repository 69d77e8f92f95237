# fails: launches
# A matrix times a vector, again and again.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    if exact:
        return torch.stack([table @ vector for vector in vectors])
    if torch.cuda.get_device_capability(table.device) >= (8, 0):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        product = torch.stack([table @ vector for vector in vectors])
        torch.set_float32_matmul_precision(before)
        return product
    return torch.stack([table.half() @ vector.half() for vector in vectors]).float()

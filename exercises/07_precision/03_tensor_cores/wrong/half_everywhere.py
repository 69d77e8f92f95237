# fails: gpu_time
# float16 on every GPU: if a GPU has TF32, the casts cost more than they save.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    if exact:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        product = rows @ table.T
        torch.set_float32_matmul_precision(before)
        return product
    return (rows.half() @ table.half().T).float()

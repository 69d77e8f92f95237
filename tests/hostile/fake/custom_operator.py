# attacks: one_thousand_norms
# tries: to hide a loop of products and waits, the starter's, in an operator of its own
# ends: failed
# isolation: both
import torch


@torch.library.custom_op("mine::norms", mutates_args=())
def one_by_one(matrices: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([(m @ m).norm().item() for m in matrices], device=matrices[0].device)


def norms(matrices):
    return one_by_one(matrices).cpu()

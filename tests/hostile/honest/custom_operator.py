# attacks: one_thousand_norms
# tries: nothing: it keeps the norms on the device, in an operator of its own
# ends: passed
# isolation: both
import torch


@torch.library.custom_op("mine::norms", mutates_args=())
def all_norms(matrices: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([(m @ m).norm() for m in matrices])


def norms(matrices):
    return all_norms(matrices).cpu()

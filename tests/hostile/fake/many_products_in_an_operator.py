# attacks: timed
# tries: to do ten times the work, and to wait for each product, in an operator of its own
# ends: too slow
# isolation: both
import torch


@torch.library.custom_op("mine::chain", mutates_args=())
def hidden(matrix: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        product = matrix.clone()
        for _ in range(20):
            product = torch.tanh(product @ matrix)
            product.sum().item()
    return product


def chain(matrix):
    return hidden(matrix)

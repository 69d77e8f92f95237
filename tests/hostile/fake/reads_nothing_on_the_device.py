# attacks: norms
# tries: to compute with the CPU tensor behind its argument, and to write the result with a kernel of the right size
# ends: needs review, failed
# isolation: both
import torch


def norms(matrix):
    result = torch.ones(len(matrix), device=matrix.device)
    result.mul_(2)
    result._host.copy_(torch.linalg.vector_norm(matrix._host, dim=1))
    return result

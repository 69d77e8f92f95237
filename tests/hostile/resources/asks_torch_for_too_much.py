# attacks: patience
# tries: a tensor on the host that no machine has
# ends: out of memory
# isolation: both
import torch


def scores(table, queries, device):
    return torch.ones(1 << 42)

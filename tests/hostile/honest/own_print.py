# attacks: scores
# tries: nothing: it has names of its own that torch and Python have too
# ends: passed
# isolation: both
import builtins
import functools
import random

import torch

print = functools.partial(builtins.print, flush=True)
random.seed(1)
torch.manual_seed(3)
torch.set_printoptions(precision=2)


class Tensor(torch.nn.Module):
    def forward(self, table, queries):
        return torch.nn.functional.relu(table @ queries.T)


def scores(table, queries, device):
    print("hello")
    return Tensor()(table.to(device), queries.to(device))

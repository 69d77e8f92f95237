# attacks: scores
# tries: a dict of thousands of keys that hold tensors, each of which would be put into words to be told apart
# ends: failed
# isolation: both
import torch


class Key(list):
    __hash__ = object.__hash__


def scores(table, queries, device):
    tensor = torch.rand(1000)
    return {Key([tensor]): 0 for _ in range(60_000)}

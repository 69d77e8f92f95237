# attacks: scores
# tries: an object whose __class__ says that it is a tensor
# ends: failed, error
# isolation: both
import torch


class Liar:
    __class__ = property(lambda self: torch.Tensor)
    shape = torch.Size((24, 8))
    dtype = torch.float32
    layout = torch.strided

    def __getattr__(self, name):
        return lambda *_, **__: self


def scores(table, queries, device):
    return Liar()

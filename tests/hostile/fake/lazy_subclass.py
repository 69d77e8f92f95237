# attacks: scores
# tries: a tensor that is computed only when it is read
# ends: failed, error
# isolation: both
import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        return super().__torch_function__(function, types, arguments, named or {})


def scores(table, queries, device):
    return (table @ queries.T).relu().as_subclass(Lazy)

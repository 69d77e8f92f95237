# attacks: scores
# tries: to give its arguments a class that breaks the code that looks at them
# ends: failed, error, needs review
# isolation: both
import torch


class Bad(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        raise ZeroDivisionError("look elsewhere")


def scores(table, queries, device):
    result = (table.to(device) @ queries.to(device).T).relu()
    table.__class__ = queries.__class__ = Bad
    return result

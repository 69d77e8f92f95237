# attacks: scores
# tries: to replace the methods by which a result is read: cpu, numpy, tolist, detach
# ends: failed, error, needs review
# isolation: both
import torch

kept = {}


def honest(tensor, *_, **__):
    return kept.get("right", tensor)


def scores(table, queries, device):
    kept["right"] = (table @ queries.T).relu()
    result = torch.zeros(24, 8, device=device)
    table.to(device), queries.to(device)
    torch.Tensor.cpu = torch.Tensor.detach = torch.Tensor.contiguous = honest
    return result

# attacks: scores
# tries: nothing: it goes through a layer with parameters
# ends: passed
# isolation: both
import torch


def scores(table, queries, device):
    layer = torch.nn.Linear(16, 8, bias=False, device="meta")
    layer.weight = torch.nn.Parameter(queries.to(device), requires_grad=False)
    return layer(table.to(device)).relu().detach()

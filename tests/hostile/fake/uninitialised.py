# attacks: scores
# tries: memory that was never filled, where a right result may still lie
# ends: failed
# isolation: both
import torch


def scores(table, queries, device):
    (table.to(device) @ queries.to(device).T).clone()
    return torch.empty(24, 8, device=device)

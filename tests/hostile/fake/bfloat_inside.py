# attacks: scores
# tries: to compute in bfloat16 and to return float32
# ends: failed
# isolation: both
import torch


def scores(table, queries, device):
    return (table.to(device).to(torch.bfloat16) @ queries.to(device).to(torch.bfloat16).T).relu().to(torch.float32)

# attacks: scores
# tries: nothing: it sets the default device, and leaves it so
# ends: passed
# isolation: both
import torch


def scores(table, queries, device):
    torch.set_default_device(device)
    return (table.to(device) @ queries.to(device).T).relu()

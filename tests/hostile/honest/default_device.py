# attacks: scores
# tries: nothing: it sets the default device
# ends: passed
# isolation: both
import torch


def scores(table, queries, device):
    torch.set_default_device(device)
    try:
        zero = torch.zeros(())
        return torch.maximum(table.to(device) @ queries.to(device).T, zero)
    finally:
        torch.set_default_device(None)

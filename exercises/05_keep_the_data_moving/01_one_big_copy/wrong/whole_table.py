# fails: transfers
# Moves the whole table and picks the rows on the device: the row numbers are a second copy.
import torch


def fetch_rows(table, wanted, device):
    return table.to(device)[torch.tensor(wanted, device=device)]

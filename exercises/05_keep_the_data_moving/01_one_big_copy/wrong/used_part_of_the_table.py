# fails: transfers
# One copy of all rows up to the last wanted row, and views of it: far more bytes than needed.
import torch


def fetch_rows(table, wanted, device):
    moved = table[: max(wanted) + 1].to(device)
    return torch.stack([moved[number] for number in wanted])

# fails: transfers
# Moves each row by itself: as many small copies as rows.
import torch


def fetch_rows(table, wanted, device):
    result = torch.empty(len(wanted), table.shape[1], device=device)
    for position, number in enumerate(wanted):
        result[position] = table[number]
    return result

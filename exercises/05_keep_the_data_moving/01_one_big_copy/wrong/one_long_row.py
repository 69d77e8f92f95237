# fails: structure
# torch.cat joins rows end to end; torch.stack or an index makes a table of them.
import torch


def fetch_rows(table, wanted, device):
    return torch.cat([table[number] for number in wanted]).to(device)

# attacks: plain
# tries: nothing: it reads through a DataLoader
# ends: passed
# isolation: both
import torch
from torch.utils.data import DataLoader, TensorDataset


def total(numbers):
    loader = DataLoader(TensorDataset(torch.arange(numbers.numel())), batch_size=4)
    return float(sum(float(numbers[rows].sum()) for (rows,) in loader))

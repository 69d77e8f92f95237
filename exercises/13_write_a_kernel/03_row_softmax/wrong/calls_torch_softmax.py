# fails: launches
# Calls PyTorch's softmax.
import torch


def row_softmax(x):
    return torch.softmax(x, dim=1)

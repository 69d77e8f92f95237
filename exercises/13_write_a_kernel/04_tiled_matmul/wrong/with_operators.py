# fails: launches
# Calls PyTorch's product.
import torch


def tiled_matmul(a, b):
    return a @ b

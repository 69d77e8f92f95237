# fails: placement
# Joins the norms on the device and leaves them there.
import torch


def norms(matrices):
    return torch.stack([(matrix @ matrix).norm() for matrix in matrices])

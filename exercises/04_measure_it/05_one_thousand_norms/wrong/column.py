# fails: structure
# Joins the norms as a column.
import torch


def norms(matrices):
    return torch.stack([(matrix @ matrix).norm() for matrix in matrices]).cpu()[:, None]

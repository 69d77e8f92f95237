# fails: placement
# Joins the vectors on the CPU and leaves the product there.
import torch


def project(vectors, table, exact):
    return torch.stack([vector.cpu() for vector in vectors]) @ table.cpu().T

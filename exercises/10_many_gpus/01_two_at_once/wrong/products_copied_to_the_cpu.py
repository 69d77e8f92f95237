# fails: transfers
# Launches all products, and then brings whole products to the CPU for their norms.
import torch


def two_at_once(pairs):
    products = [left @ right for left, right in pairs]
    return torch.stack([torch.linalg.vector_norm(product.cpu()) for product in products])

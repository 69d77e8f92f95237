# fails: overlap
# Prints each norm in the loop, to show progress: the host waits for each printed value.
import torch


def two_at_once(pairs):
    norms = []
    for left, right in pairs:
        norm = torch.linalg.vector_norm(left @ right).cpu()
        print(f"{left.device}: {norm:.1f}")
        norms.append(norm)
    return torch.stack(norms)

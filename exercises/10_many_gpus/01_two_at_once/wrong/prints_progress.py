# fails: overlap
# Looks at each norm in the loop for a line of progress: a value that is printed has to be there first.
import torch


def two_at_once(pairs):
    norms = []
    for left, right in pairs:
        norm = torch.linalg.vector_norm(left @ right).cpu()
        print(f"{left.device}: {norm:.1f}")
        norms.append(norm)
    return torch.stack(norms)

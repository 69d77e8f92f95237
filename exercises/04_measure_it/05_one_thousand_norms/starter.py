"""One thousand norms: results stay on the device until the end."""

import torch


def norms(matrices: list[torch.Tensor]) -> torch.Tensor:
    """Frobenius norms (n,) of m @ m, on the CPU.

    matrices: n of them, (100, 100) each, on the device.
    """
    # TODO: this waits for the device at every matrix.
    values = []
    for matrix in matrices:
        values.append((matrix @ matrix).norm().item())
    return torch.tensor(values)


if __name__ == "__main__":
    import time

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    matrices = list(torch.randn(1000, 100, 100, device=device))
    norms(matrices)
    start = time.perf_counter()
    result = norms(matrices)
    took_ms = (time.perf_counter() - start) * 1e3
    print(f"{len(result)} norms in {took_ms:.1f} ms on {device}")

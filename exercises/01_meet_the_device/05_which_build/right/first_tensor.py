# Lets the first tensor start CUDA, and looks up the error message in a table.
import torch

REASONS = {
    "not compiled with CUDA": "a CUDA build",
    "Found no NVIDIA driver": "a driver",
    "driver on your system is too old": "a newer driver",
    "No CUDA GPUs are available": "a GPU",
}


def which_build():
    try:
        torch.zeros(1, device="cuda")
        missing = "nothing"
    except (RuntimeError, AssertionError) as error:
        missing = next(remedy for words, remedy in REASONS.items() if words in str(error))
    return {"cuda_build": torch.backends.cuda.is_built(), "missing": missing}

# fails: value
# Mistakes "a GPU can be used" for "built with CUDA".
import torch


def what_is_missing() -> str:
    """Name what a CUDA build lacks, from the error that it raises."""
    try:
        torch.cuda.init()
    except RuntimeError as error:
        if "too old" in str(error):
            return "a newer driver"
        if "Found no NVIDIA driver" in str(error):
            return "a driver"
    return "a GPU"


def which_build() -> dict:
    """Describe this PyTorch's build, and what is missing."""
    cuda_build = torch.cuda.is_available()
    if torch.cuda.is_available():
        missing = "nothing"
    elif not cuda_build:
        missing = "a CUDA build"
    else:
        missing = what_is_missing()
    return {"cuda_build": cuda_build, "missing": missing}

# fails: value
# Looks for words that both messages about drivers contain.
import torch


def what_is_missing() -> str:
    """Name what a CUDA build lacks, from the error that it raises."""
    try:
        torch.cuda.init()
    except RuntimeError as error:
        if "NVIDIA driver on your system" in str(error):
            return "a newer driver"
        if "never" in str(error):
            return "a driver"
    return "a GPU"


def which_build() -> dict:
    """Describe this PyTorch's build, and what is missing."""
    cuda_build = torch.version.cuda is not None
    if torch.cuda.is_available():
        missing = "nothing"
    elif not cuda_build:
        missing = "a CUDA build"
    else:
        missing = what_is_missing()
    return {"cuda_build": cuda_build, "missing": missing}

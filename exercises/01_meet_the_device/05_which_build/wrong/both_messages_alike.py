# fails: value
# Looks for words that both messages about drivers contain.
import torch


def what_is_missing() -> str:
    """The part that a CUDA build needs, by the error of its start."""
    try:
        torch.cuda.init()
    except RuntimeError as error:
        if "NVIDIA driver on your system" in str(error):
            return "a newer driver"
        if "never" in str(error):
            return "a driver"
    return "a GPU"


def which_build() -> dict:
    """Whether PyTorch was built with CUDA, and what to install."""
    cuda_build = torch.version.cuda is not None
    if torch.cuda.is_available():
        install = "nothing"
    elif not cuda_build:
        install = "a CUDA build"
    else:
        install = what_is_missing()
    return {"cuda_build": cuda_build, "install": install}

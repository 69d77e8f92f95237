# fails: value
# Mistakes "a GPU can be used" for "built with CUDA".
import torch


def what_is_missing() -> str:
    """The part that a CUDA build needs, by the error of its start."""
    try:
        torch.cuda.init()
    except RuntimeError as error:
        if "too old" in str(error):
            return "a newer driver"
        if "Found no NVIDIA driver" in str(error):
            return "a driver"
    return "a GPU"


def which_build() -> dict:
    """Whether PyTorch was built with CUDA, and what to install."""
    cuda_build = torch.cuda.is_available()
    if torch.cuda.is_available():
        install = "nothing"
    elif not cuda_build:
        install = "a CUDA build"
    else:
        install = what_is_missing()
    return {"cuda_build": cuda_build, "install": install}

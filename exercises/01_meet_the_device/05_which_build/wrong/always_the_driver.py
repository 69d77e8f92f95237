# fails: value
# Tells everyone without a usable GPU to install a driver.
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
    cuda_build = torch.version.cuda is not None
    if torch.cuda.is_available():
        missing = "nothing"
    elif not cuda_build:
        missing = "a CUDA build"
    else:
        missing = "a driver"
    return {"cuda_build": cuda_build, "missing": missing}

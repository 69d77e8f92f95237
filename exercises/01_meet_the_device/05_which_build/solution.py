"""Which build? Why a GPU cannot be used, and what to install."""

import torch


def what_is_missing() -> str:
    """Name what a CUDA build lacks, by the error of its start."""
    try:
        torch.cuda.init()
    except RuntimeError as error:
        if "too old" in str(error):
            return "a newer driver"
        if "Found no NVIDIA driver" in str(error):
            return "a driver"
    return "a GPU"


def which_build() -> dict:
    """Describe this PyTorch's build, and what to install."""
    cuda_build = torch.version.cuda is not None
    if torch.cuda.is_available():
        install = "nothing"
    elif not cuda_build:
        install = "a CUDA build"
    else:
        install = what_is_missing()
    return {"cuda_build": cuda_build, "install": install}


if __name__ == "__main__":
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    print(which_build())

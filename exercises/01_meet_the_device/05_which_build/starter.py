"""The build: why a GPU cannot be used, and what is missing."""

import torch


def which_build() -> dict:
    """Describe this PyTorch's build, and what is missing."""
    # TODO: distinguish the causes.
    if torch.cuda.is_available():
        return {"cuda_build": True, "missing": "nothing"}
    return {"cuda_build": True, "missing": "a driver"}


if __name__ == "__main__":
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    print(which_build())

# Asks for the build first, and lets a question about a device start CUDA.
import torch


def which_build():
    if not torch.backends.cuda.is_built():
        return {"cuda_build": False, "install": "a CUDA build"}
    install = "nothing"
    try:
        torch.cuda.current_device()
    except RuntimeError as error:
        message = str(error)
        if "Found no" in message:
            install = "a driver"
        elif "old" in message:
            install = "a newer driver"
        else:
            install = "a GPU"
    return {"cuda_build": True, "install": install}

# Checks the build first; then current_device() starts CUDA.
import torch


def which_build():
    if not torch.backends.cuda.is_built():
        return {"cuda_build": False, "missing": "a CUDA build"}
    missing = "nothing"
    try:
        torch.cuda.current_device()
    except RuntimeError as error:
        message = str(error)
        if "Found no" in message:
            missing = "a driver"
        elif "old" in message:
            missing = "a newer driver"
        else:
            missing = "a GPU"
    return {"cuda_build": True, "missing": missing}

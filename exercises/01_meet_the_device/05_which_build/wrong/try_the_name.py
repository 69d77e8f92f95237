# fails: value
# Expects torch.device("cuda") to start CUDA; it only makes a name.
import torch


def which_build():
    if torch.version.cuda is None:
        return {"cuda_build": False, "missing": "a CUDA build"}
    try:
        torch.device("cuda")
    except RuntimeError as error:
        missing = "a newer driver" if "too old" in str(error) else "a driver"
        return {"cuda_build": True, "missing": missing}
    return {"cuda_build": True, "missing": "nothing"}

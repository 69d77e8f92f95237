# fails: value
# Expects torch.device("cuda") to start CUDA; it only makes a name.
import torch


def which_build():
    if torch.version.cuda is None:
        return {"cuda_build": False, "install": "a CUDA build"}
    try:
        torch.device("cuda")
    except RuntimeError as error:
        install = "a newer driver" if "too old" in str(error) else "a driver"
        return {"cuda_build": True, "install": install}
    return {"cuda_build": True, "install": "nothing"}

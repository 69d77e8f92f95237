# fails: value
# Counts GPUs: every machine without one looks alike.
import torch


def which_build():
    built = torch.backends.cuda.is_built()
    if not built:
        return {"cuda_build": False, "missing": "a CUDA build"}
    return {"cuda_build": True, "missing": "nothing" if torch.cuda.device_count() else "a GPU"}

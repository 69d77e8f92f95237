# fails: runs
# Starts CUDA without asking for the build: a CPU build raises an AssertionError, not a RuntimeError.
import torch


def which_build():
    try:
        torch.cuda.init()
    except RuntimeError as error:
        for words, missing in {"too old": "a newer driver", "Found no": "a driver", "No CUDA": "a GPU"}.items():
            if words in str(error):
                return {"cuda_build": True, "missing": missing}
    return {"cuda_build": True, "missing": "nothing"}

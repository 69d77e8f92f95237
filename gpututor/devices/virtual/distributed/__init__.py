"""Several virtual GPUs, in one process or in several."""

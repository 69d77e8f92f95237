"""Several virtual GPUs, in one process and in many."""

"""Files and copies, in CUDA's own formats."""

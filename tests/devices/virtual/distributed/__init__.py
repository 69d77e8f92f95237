"""Several devices, threads and processes."""

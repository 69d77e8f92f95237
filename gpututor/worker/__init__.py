"""The worker: the untrusted process that runs one submission and dies."""

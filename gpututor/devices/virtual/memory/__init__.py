"""The memory of a virtual GPU, counted as CUDA's caching allocator counts."""

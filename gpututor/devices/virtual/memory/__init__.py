"""Memory of a virtual GPU, counted as by CUDA's caching allocator."""

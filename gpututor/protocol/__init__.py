"""Messages between processes: bounded frames of JSON and raw bytes, and the values in them. No pickle."""

"""The app's widgets, one file each."""

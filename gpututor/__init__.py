"""gpututor: a terminal exercise trainer for GPU acceleration with PyTorch."""

__version__ = "0.1.0"


def describe_version() -> str:
    """Return the version, in a clone with its commit: `0.1.0 (commit 1a2b3c4, changed)`."""
    import subprocess
    from pathlib import Path

    clone = Path(__file__).resolve().parent.parent
    if not (clone / ".git").exists():
        return __version__
    # Both folders are named: a variable such as GIT_DIR, which hooks have, would choose another repository.
    git = ["git", f"--git-dir={clone / '.git'}", f"--work-tree={clone}", "--no-optional-locks"]
    try:
        described = subprocess.run(
            [*git, "describe", "--always", "--exclude=*", "--dirty=, changed"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return __version__  # no git here, or no commit yet
    return f"{__version__} (commit {described.stdout.strip()})"

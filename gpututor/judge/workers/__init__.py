"""Workers: started ahead of need, watched, and ended with everything that they started."""

from gpututor.judge.workers.pool import WorkerPool, WorkerSource
from gpututor.judge.workers.worker import Worker

__all__ = ["Worker", "WorkerPool", "WorkerSource"]

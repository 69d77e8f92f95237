"""The process that speaks with Ray: `python -I -m gpututor.classroom.executors.ray_driver`, with what `main` takes.

It is asked over a socket, one thing after the other, what `Cluster` has, and ends when nobody is there to ask.
"""

from __future__ import annotations

import os
import shutil
import sys
from multiprocessing.connection import Connection
from typing import Any

from gpututor.classroom.executors.machines import ClusterLost
from gpututor.classroom.executors.ray import RayCluster
from gpututor.errors import TutorError


def main(descriptor: int, address: str, cpus: int, gpus: int, folder: str) -> None:
    """`descriptor`: of the socket. The others are those of `RayCluster`."""
    os.set_inheritable(descriptor, False)  # what Ray starts may live on
    connection: Connection[Any, Any] = Connection(descriptor)
    cluster = RayCluster(address, cpus, gpus, folder)
    try:
        while True:
            name, arguments = connection.recv()
            connection.send(_answer(cluster, name, arguments))
    except (EOFError, OSError):
        return
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)  # whoever asked may have been killed


def _answer(cluster: RayCluster, name: str, arguments: tuple[object, ...]) -> tuple[object, TutorError | None]:
    try:
        return getattr(cluster, name)(*arguments), None
    except TutorError as error:
        return None, error
    except Exception as error:  # whatever Ray has to say
        line = str(error).strip().partition("\n")[0]
        return None, ClusterLost.because(f"{type(error).__name__}: {line}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])

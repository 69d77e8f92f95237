"""Grading on the nodes of a Ray cluster. No other module imports Ray.

Each chunk of jobs is one Ray task. If a worker, a node or the cluster dies, only the gradings in progress are lost.
Reports in the journal are final, and `--resume` grades the rest.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpututor import paths
from gpututor.classroom.executors import GradingFailed, check_journal, grade_job, start_judge, written_outcome
from gpututor.classroom.executors.local import RealDevices, probe_devices, working_in_bubblewrap
from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import Claim, WorkQueue
from gpututor.errors import CourseError, GradingError, NotGradableHere, TutorError, UsageError
from gpututor.grading.client import GradingService, IsolationName
from gpututor.grading.journal import exercise_digest, grader_version
from gpututor.hardware.inventory import load_inventory, torch_version

LARGEST_CHUNK, SMALLEST_CHUNK, SMALLEST_GPU_CHUNK = 50, 8, 2
"""Jobs of a chunk. Each chunk starts a judge, which takes as long as some gradings on the virtual GPU."""
RETRIES = 2
"""Retries of a task whose worker died; a retry skips jobs whose reports are in the journal."""
STORE_BYTES = 100 << 20
"""Object store of a cluster of our own: hardly any data travels through Ray."""
POLL_S = 0.5
CONNECT_TIMEOUT_S = 10.0
NODE_TIMEOUT_S = 600.0
"""Seconds to wait for a first node, or for another after the last one died."""
_MARKER = ".shared-"
"""Prefix of the file by which nodes recognize the shared journal."""
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # Ray reports no usage statistics
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # Ray copies no folder to the nodes
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_NO_RAYLET = "the part of it that runs on this machine, the raylet, has ended"


class TaskLost(GradingError):
    """A task without a result: its worker or its node died, or could not start."""


class ClusterLost(GradingError):
    """A failure of the cluster's head, or of its part on this machine."""

    def __init__(self, why: str) -> None:
        advice = "The journal has all finished gradings. Check `ray status`, restart Ray, and continue with --resume."
        super().__init__(f"The Ray cluster is lost: {why}.", advice)


def probe_node(
    job: Job,
    exercises: Mapping[str, str],
    isolation: IsolationName,
    marker: str,
    check_bubblewrap: Callable[[], object] = working_in_bubblewrap,
) -> str:
    """Return the reason why this machine cannot grade jobs like `job` with correct keys; empty if it can.

    `exercises`: versions by folder. `marker`: a file that only the journal of this run has.
    """
    key = job.key
    for name, here, wanted in (("gpututor", grader_version(), key.gpututor), ("PyTorch", torch_version(), key.torch)):
        if here != wanted:
            installed = f"{name} {here}" if here else f"no {name}"
            return f"it has {installed}, but needs {wanted}: all nodes need the same version"
    if not Path(job.journal, marker).exists():
        return f"it does not see {job.journal}: --out must be a shared folder with the same path on all nodes"
    try:
        for folder, version in exercises.items():
            if not Path(folder).is_dir():
                return f"it does not see {folder}: the course must have the same path on all nodes"
            if exercise_digest(Path(folder)) != version:
                return f"the files in {folder} are not those of the other nodes"
        check_journal(job)
        if isolation == "bubblewrap":
            check_bubblewrap()
    except (CourseError, UsageError, NotGradableHere) as error:
        return error.title
    return ""


@dataclass(frozen=True)
class ChunkResult:
    """The end of a chunk. The reports of its gradings are in the journal."""

    failure: str = ""
    """Reason why the first job without a report failed; empty if it was not started."""
    unfit: str = ""
    """Reason why the node cannot grade any more of these jobs; empty if it can."""


def grade_chunk(jobs: Sequence[Job], isolation: IsolationName) -> ChunkResult:
    """Grade jobs for one device on this node, except those with a report in the journal."""
    is_real = any(job.gpus for job in jobs)
    # Nodes may share the inventory's file, and have different GPUs.
    accelerators = load_inventory(refresh=True).accelerators if is_real else ()
    devices = RealDevices(accelerators, partial(probe_devices, isolation))
    return grade_in_order(jobs, devices, partial(start_judge, isolation))


def grade_in_order(jobs: Sequence[Job], devices: RealDevices, new_judge: Callable[[], GradingService]) -> ChunkResult:
    """Grade up to the first job that fails, so that a faulty node reports it at once."""
    judge, device = new_judge(), ""
    try:
        for job in jobs:
            if written_outcome(job) is None:
                with devices.acquire(job) as device:
                    grade_job(judge, job, device)
    except GradingFailed as error:
        judge.close()
        devices.check(device)
        try:
            with devices.acquire(job):
                return ChunkResult(str(error))
        except NotGradableHere as no_device:
            return ChunkResult(str(error), no_device.title)
    except TutorError as error:  # nothing more can be graded here
        return ChunkResult(unfit=error.title)
    finally:
        judge.close()
    return ChunkResult()


@dataclass
class RayNode:
    """A node's capacity, and the devices for which it cannot grade."""

    name: str
    cpus: int
    gpus: int
    refusals: dict[str, str] = field(default_factory=dict)
    """Reasons by `GradingKey.device`; "" means all devices."""


class RayCluster:
    """A Ray cluster at `address`: `auto` for this machine's, empty for a new one with `cpus` and `gpus`."""

    def __init__(self, address: str, cpus: int, gpus: int) -> None:
        self._address = address
        self._resources = {"num_cpus": cpus, "num_gpus": gpus}
        self._ray: Any = None
        self._head = self._here = ""
        self._remote: dict[Any, Any] = {}
        self._opened = contextlib.ExitStack()

    def open(self) -> None:
        """Connect, or start a cluster. Raises `UsageError` if that fails."""
        os.environ.update({name: value for name, value in _ENVIRONMENT.items() if name not in os.environ})
        if not self._address:  # the ports of a new cluster are open to the network
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
        check_installed()
        import ray

        _check_address(self._address)
        self._ray = ray
        try:
            self._connect()
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"the Ray cluster at {self._address!r}" if self._address else "a Ray cluster on this machine"
            advice = (
                "`ray status` shows what runs. All nodes need the same versions of Ray and Python. If the cluster "
                "requires a token, set RAY_AUTH_MODE=token."
            )
            raise UsageError(f"Cannot use {where}: {_last_line(error)}", advice) from error

    def _connect(self) -> None:
        paths.log_file().parent.mkdir(parents=True, exist_ok=True)
        # Ray reports dying nodes on the standard output, which may have to be JSON.
        log = self._opened.enter_context(paths.log_file().open("a", encoding="utf-8"))
        self._opened.enter_context(contextlib.redirect_stdout(log))
        self._opened.enter_context(contextlib.redirect_stderr(log))
        options: dict[str, Any] = {"address": self._address}
        if not self._address:
            # In /tmp, because paths of sockets must be short.
            folder = tempfile.mkdtemp(prefix="gpututor-ray-", dir="/tmp" if os.name == "posix" else None)
            self._opened.callback(shutil.rmtree, folder, ignore_errors=True)
            options = {"address": "local", "_temp_dir": folder, "include_dashboard": False, **self._resources}
            options["object_store_memory"] = STORE_BYTES
        self._opened.callback(self._ray.shutdown)
        on_sigterm = signal.getsignal(signal.SIGTERM)
        with contextlib.chdir(os.sep):  # Ray's workers import from the current folder, which may hold submissions
            self._ray.init(log_to_driver=False, logging_level="CRITICAL", **options)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)  # Ray installs its own handler
        context = self._ray.get_runtime_context()
        self._head, self._here = context.gcs_address, context.get_node_id()
        task = self._ray.remote(num_cpus=1, max_retries=RETRIES, max_calls=1)
        self._remote = {function: task(function) for function in (probe_node, grade_chunk)}

    def nodes(self) -> Mapping[str, RayNode]:
        """Return the living nodes by id. Raises `ClusterLost`."""
        try:
            _check_port(self._head)  # without a head Ray would wait for a minute, then end this process
            living = [node for node in self._ray.nodes() if node["Alive"]]
        except (OSError, RuntimeError, self._ray.exceptions.RayError) as error:
            raise ClusterLost(f"its head is gone, or cannot be reached: {_last_line(error)}") from error
        nodes = {}
        for node in living:
            cpus, gpus = (int(node["Resources"].get(name, 0)) for name in ("CPU", "GPU"))
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
            nodes[str(node["NodeID"])] = RayNode(name, cpus, gpus)
        if self._here not in nodes:
            raise ClusterLost(_NO_RAYLET)
        return nodes

    def start(self, function: Callable[..., Any], node_id: str, gpus: int, *arguments: object) -> Any:
        """Start a task that uses one CPU on a node, and return it."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
        return self._remote[function].options(num_gpus=gpus, scheduling_strategy=strategy).remote(*arguments)

    def wait(self, tasks: Sequence[Any], timeout_s: float) -> Sequence[Any]:
        """Wait up to `timeout_s` until a task ends; return those that ended."""
        if not tasks:
            time.sleep(timeout_s)
            return []
        done: Sequence[Any] = self._ray.wait(tasks, num_returns=1, timeout=timeout_s, fetch_local=False)[0]
        return done

    def result(self, task: Any) -> Any:
        """Return the result of a task that ended. Raises `TaskLost` and `ClusterLost`."""
        try:
            return self._ray.get(task)
        except self._ray.exceptions.LocalRayletDiedError as error:
            raise ClusterLost(_NO_RAYLET) from error
        except self._ray.exceptions.RayError as error:
            raise TaskLost(f"{type(error).__name__}: {_last_line(error)}") from error

    def close(self) -> None:
        """End all tasks, and a cluster of our own."""
        self._opened.close()


def check_installed() -> None:
    """Raise `UsageError` if Ray is not installed; import nothing."""
    if importlib.util.find_spec("ray") is None:
        advice = "`pip install 'gpututor[ray]'` installs it; --executor local does not need it."
        raise UsageError("--executor ray needs Ray, which is not installed.", advice)


def _check_address(address: str) -> None:
    """Raise `UsageError` if no cluster listens there: Ray itself would try for minutes."""
    if "://" in address:
        advice = "Run this on a machine of the cluster, with auto or the HOST:PORT that `ray start --head` prints."
        raise UsageError(f"--address {address}: expected HOST:PORT or auto.", advice)
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            _check_port(address)
        except (OSError, OverflowError) as error:
            advice = "`ray start --head` prints the address. --address auto finds the cluster of this machine."
            raise UsageError(f"No Ray cluster listens at {address}: {error}", advice) from error


def _check_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()


def _last_line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2]


@dataclass
class Chunk:
    """Claimed jobs that a node grades in order."""

    claims: deque[Claim]
    node_id: str
    device: str
    gpus: int

    def complete_written(self, work: WorkQueue) -> None:
        """Complete jobs in their order, up to the first whose report is not in the journal."""
        while self.claims and (outcome := written_outcome(self.claims[0].job)) is not None:
            work.complete(self.claims.popleft(), outcome)


class RayExecutor:
    """An executor on a cluster. `judges`: most chunks at once; None for one per CPU. `notify` gets messages."""

    def __init__(
        self, cluster: RayCluster, isolation: IsolationName, judges: int | None, notify: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._judges = judges
        self._notify = notify
        self._nodes: dict[str, RayNode] = {}
        self._probes: dict[Any, str] = {}
        """Ids of nodes, by their probes."""
        self._chunks: dict[Any, Chunk] = {}
        self._without_nodes_since: float | None = None

    def run(self, work: WorkQueue) -> None:
        if not work.jobs:
            return
        first = work.jobs[0]
        exercises = {job.exercise_folder: job.key.exercise_version for job in work.jobs}
        try:
            with _marker_in(Path(first.journal)) as marker:
                self._cluster.open()
                while not work.is_over:
                    self._update_nodes(first, exercises, self._isolation, marker)
                    self._start_chunks(work)
                    for task in self._cluster.wait([*self._probes, *self._chunks], POLL_S):
                        if task in self._probes:
                            self._end_probe(task)
                        else:
                            self._end_chunk(task, work)
                    for chunk in self._chunks.values():
                        chunk.complete_written(work)
        except TutorError as error:
            work.stop(error)
        finally:
            work.stop()
            self._cluster.close()
        work.raise_error()

    def _update_nodes(self, *required: object) -> None:
        """Probe new nodes with the arguments `required`, and drop dead ones."""
        living = self._cluster.nodes()
        for node_id in self._nodes.keys() - living.keys():
            name = self._nodes.pop(node_id).name
            self._notify(f"Node {name} is gone. Other nodes repeat its unfinished gradings.")
        for node_id, node in living.items():
            if node_id not in self._nodes and node.cpus:
                self._nodes[node_id] = node
                self._probes[self._cluster.start(probe_node, node_id, 0, *required)] = node_id
        minutes = f"{NODE_TIMEOUT_S / 60:.0f} minutes"
        if self._nodes:
            self._without_nodes_since = None
        elif self._without_nodes_since is None:
            self._without_nodes_since = time.monotonic()
            self._notify(f"No node of the cluster has a CPU to grade on. Waiting {minutes} for one.")
        elif time.monotonic() - self._without_nodes_since > NODE_TIMEOUT_S:
            title = f"No node of the cluster has had a CPU to grade on for {minutes}."
            raise GradingError(title, "Start nodes, then continue with --resume.")

    def _end_probe(self, task: Any) -> None:
        node = self._nodes.get(self._probes.pop(task))
        if node is None:
            return
        try:
            why = self._cluster.result(task)
        except TaskLost as error:
            why = str(error)
        if why:
            node.refusals[""] = why
            self._notify(f"Node {node.name} cannot grade: {why}")

    def _ready_nodes(self) -> dict[str, RayNode]:
        probed = self._probes.values()
        return {id: node for id, node in self._nodes.items() if id not in probed and "" not in node.refusals}

    def _start_chunks(self, work: WorkQueue) -> None:
        """Start as many chunks as nodes have CPUs. Raises `NotGradableHere` if no node can grade the rest."""
        for node_id, node in self._ready_nodes().items():
            while len(self._chunks) != self._judges:
                running = [chunk for chunk in self._chunks.values() if chunk.node_id == node_id]
                free_gpus = node.gpus - sum(chunk.gpus for chunk in running)
                chunk = self._claim_chunk(work, node_id, free_gpus) if len(running) < node.cpus else None
                if chunk is None:
                    break
                jobs = [claim.job for claim in chunk.claims]
                self._chunks[self._cluster.start(grade_chunk, node_id, chunk.gpus, jobs, self._isolation)] = chunk
        if self._nodes and not self._probes and not self._chunks:
            self._refuse_rest(work)

    def _claim_chunk(self, work: WorkQueue, node_id: str, free_gpus: int) -> Chunk | None:
        """Claim jobs for one device: fewer towards the end, so that all nodes end together."""
        refusals = self._nodes[node_id].refusals
        # A job for more GPUs than any node has gets all GPUs of the largest node.
        largest = max(1, *(node.gpus for node in self._nodes.values()))

        def fits(job: Job) -> bool:
            return free_gpus >= min(job.gpus, largest) and job.key.device not in refusals

        first = work.claim(wait=False, fits=lambda job: job.gpus > 0 and fits(job)) or work.claim(wait=False, fits=fits)
        if first is None:
            return None
        kind = first.job.gpus, first.job.key.device
        progress = work.progress
        left = progress.total - progress.done - progress.abandoned - progress.in_flight
        judges = sum(node.cpus for node in self._ready_nodes().values())
        smallest = SMALLEST_GPU_CHUNK if first.job.gpus else SMALLEST_CHUNK
        most = max(smallest, min(LARGEST_CHUNK, left // (2 * min(judges, self._judges or judges))))
        claims = deque([first])
        while len(claims) < most:
            exercise = first.job.key.exercise
            claim = work.claim(exercise, wait=False, fits=lambda job: (job.gpus, job.key.device) == kind)
            if claim is None:
                break
            claims.append(claim)
        return Chunk(claims, node_id, first.job.key.device, min(first.job.gpus, largest))

    def _refuse_rest(self, work: WorkQueue) -> None:
        claim = work.claim(wait=False)
        if claim is None:
            return
        work.release(claim)
        device = claim.job.key.device if self._ready_nodes() else ""
        reasons = [
            f"{node.name}: {node.refusals.get('') or node.refusals.get(device) or 'it has no such device'}"
            for node in self._nodes.values()
        ]
        advice = "Fix it, then continue with --resume. docs/classroom/clusters.md says what a node needs."
        words = f" on {device}" if device else ""
        raise NotGradableHere(f"No node of the cluster can grade{words}.\n  " + "\n  ".join(reasons), advice)

    def _end_chunk(self, task: Any, work: WorkQueue) -> None:
        chunk = self._chunks.pop(task)
        try:
            result: ChunkResult = self._cluster.result(task)
        except TaskLost as error:
            # The submission that was being graded may have killed its worker, but not its node.
            result = ChunkResult(str(error) if chunk.node_id in self._cluster.nodes() else "")
        chunk.complete_written(work)
        if result.failure and chunk.claims:
            work.fail(chunk.claims.popleft(), result.failure)
        for claim in chunk.claims:
            work.release(claim)
        if result.unfit and (node := self._nodes.get(chunk.node_id)) is not None:
            node.refusals[chunk.device] = result.unfit
            self._notify(f"Node {node.name} no longer grades on {chunk.device}: {result.unfit}")


@contextlib.contextmanager
def _marker_in(journal: Path) -> Iterator[str]:
    marker = journal / f"{_MARKER}{secrets.token_hex(8)}"
    try:
        for stale in journal.glob(f"{_MARKER}*"):  # left by a run that was killed
            stale.unlink(missing_ok=True)
        marker.touch()
    except OSError as error:
        advice = "Free some space, or give yourself write permission."
        raise UsageError(f"{journal} cannot be written to ({error.strerror}).", advice) from error
    try:
        yield marker.name
    finally:
        with contextlib.suppress(OSError):  # the next run removes it
            marker.unlink()

"""The Job files of scripts: one per framework, with comments that say what each choice is for.

`pumice init` writes them, `pumice run train.py` runs them.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from pumice.model.text import literal, plural
from pumice.yaml.writer import plain_or_quoted

_USE: Final = '"$@"'
STARTED_BY: Final = {".py": ("python3",), ".sh": ("bash",)}
_LONGEST_COMMENT: Final = 100
_COMPLETES: Final = ("policies:", "  - event: TaskCompleted", "    action: CompleteJob")


class NewJob(Struct, frozen=True):
    name: str
    script: str
    workers: int  # ranks
    gpus: int  # per pod
    file: str
    args: tuple[str, ...] = ()
    parameter_server: bool = True  # of TensorFlow
    reads_local_rank: bool = False  # the script reads the variable LOCAL_RANK

    @property
    def command(self) -> list[str]:
        """The command that starts the script; a program that is no Python or shell script is started by its path."""
        path = f"./{self.script}" if self.script.startswith("-") else self.script
        start = next((words for suffix, words in STARTED_BY.items() if path.endswith(suffix)), ())
        return [*([*start, path] if start or "/" in path else [f"./{path}"]), *self.args]


class JobText(Struct, frozen=True):
    """The text of a Job file, and what its ranks are: `3 ranks: master 1 + worker 2`."""

    text: str
    ranks: str


def job_file(framework: str, job: NewJob) -> JobText:
    """Return a commented Job file."""
    plugin, explained, pods, ranks, tasks = _FRAMEWORKS[framework](job)
    file, without_gpus = shlex.quote(job.file), ""
    if job.gpus:
        without_gpus = f" --fit    (which leaves out the {plural(job.gpus, 'GPU')} per pod where there are none)"
    head = [
        f"# Run it on this machine: pumice run {file}{without_gpus}",
        f"# Run it on a cluster:    kubectl apply -f {file}",
        "apiVersion: batch.volcano.sh/v1alpha1",
        "kind: Job",
        "metadata:",
        f"  name: {plain_or_quoted(job.name)}",  # `on` and `null` are words of YAML
        "spec:",
        f"  minAvailable: {pods}  # all pods start together, or none does",
        "  plugins:",
        *_comment(explained, 4),
        f"    {plugin}",
        "  policies:",
        *_comment("A pod that fails ends the job: the others would wait for it.", 4),
        *_comment(f"Use RestartJob once {job.script} continues from its last checkpoint.", 4),
        "    - event: PodFailed",
        "      action: TerminateJob",
        *_comment("A pod whose node is drained or lost is not to blame: start all of them again.", 4),
        "    - event: PodEvicted",
        "      action: RestartJob",
        "  tasks:",
    ]
    return JobText("\n".join([*head, *tasks, ""]), ranks)


def _comment(text: str, indent: int) -> list[str]:
    before = f"{' ' * indent}# "
    return textwrap.wrap(
        text, _LONGEST_COMMENT, initial_indent=before, subsequent_indent=before, break_on_hyphens=False
    )


def _task(name: str, replicas: int, container: list[str], *, about: str, more: tuple[str, ...] = ()) -> list[str]:
    return [
        *_comment(about, 4),
        f"    - name: {name}",
        f"      replicas: {replicas}",
        *(f"      {line}" for line in more),
        "      template:",
        "        spec:",
        "          containers:",
        f"            - name: {name}",
        *(f"              {line}" for line in container),
        "          restartPolicy: Never  # the policies above decide what a failure means",
    ]


def _image(job: NewJob, image: str, *, has: str, first: bool = True) -> list[str]:
    """The image, with what it is for where it is named for the first time."""
    if not first:
        return [f"image: {image}"]
    about = (
        "On this machine, pods use its own files and Python, and the working directory. On a cluster, name an image "
        f"that is built FROM this one ({has}) and has {job.script} in its working directory."
    )
    return [*_comment(about, 0), f"image: {image}"]


def _command(words: list[str]) -> str:
    return f"command: {json.dumps([literal(word) for word in words], ensure_ascii=False)}"


def _text_command(program: str, *lines: str) -> list[str]:
    """The command of a program that gets its text after -c. A word in it may have several lines."""
    every = [part for line in lines for part in line.split("\n")]
    return ["command:", f"  - {program}", "  - -c", "  - |", *(f"    {line}" for line in every)]


def _resources(job: NewJob) -> list[str]:
    if job.gpus:
        return ["resources:", "  limits:", f"    nvidia.com/gpu: {job.gpus}  # per pod"]
    return [
        "# resources:  # what a pod needs; a cluster chooses nodes by it",
        '#   requests: {cpu: "4", memory: 16Gi}',
    ]


_Parts = tuple[str, str, int, str, list[str]]  # the plugin, what it is for, the number of pods, the ranks, the tasks


def _ranks(job: NewJob, where: str, *, in_pod: int = 1) -> str:
    each = f"{in_pod} in each pod of " if in_pod > 1 else ""
    return f"{plural(job.workers * in_pod, 'rank')}: {each}{where}"


def _torch(job: NewJob) -> _Parts:
    words = job.command
    launched = job.gpus > 1 and words[0] == "python3"
    if launched:
        # It takes its arguments from the plugin's PET_ variables.
        words = ["python3", "-m", "torch.distributed.run", *words[1:]]
    image = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"
    explained = "Sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which torch.distributed reads."
    if launched:
        explained += f" torch.distributed.run starts a process per GPU, {job.gpus} in each pod."

    def container(*, first: bool) -> list[str]:
        lines = [*_image(job, image, has="PyTorch", first=first), _command(words)]
        if job.reads_local_rank and job.gpus <= 1:  # torchrun sets it for its own processes
            why = "reads LOCAL_RANK, which torchrun sets and plugins do not: a pod is one process, number 0."
            comment = _comment(f"{job.script} {why}", 0) if first else []
            lines += [*comment, "env:", '  - {name: LOCAL_RANK, value: "0"}']
        return [*lines, *_resources(job)]

    others = job.workers - 1
    about = "Rank 1." if others == 1 else f"Ranks 1 to {others}."
    tasks = _task("master", 1, container(first=True), about="Rank 0, where the others meet.")
    tasks += _task("worker", others, container(first=False), about=about) if others else []
    where = "master 1" + (f" + worker {others}" if others else "")
    ranks = _ranks(job, where, in_pod=job.gpus if launched else 1)
    return 'pytorch: ["--master=master", "--worker=worker"]', explained, job.workers, ranks, tasks


def _tensorflow(job: NewJob) -> _Parts:
    image = f"tensorflow/tensorflow:2.18.0{'-gpu' if job.gpus else ''}"
    container = [*_image(job, image, has="TensorFlow"), _command(job.command), *_resources(job)]
    code = (
        "import tensorflow as tf",
        "cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()",
        'tf.distribute.Server(cluster, job_name="ps", task_index=0).join()',
    )
    server = [f"image: {image.removesuffix('-gpu')}", *_text_command("python3", *code)]
    explained = "Sets TF_CONFIG, which the strategies of TensorFlow read: the addresses of all workers, and of the ps."
    tasks = [
        *_task("worker", job.workers, container, about="When the workers are done, the job is.", more=_COMPLETES),
        *(_task("ps", 1, server, about="A parameter server.") if job.parameter_server else ()),
    ]
    ranks = _ranks(job, f"worker {job.workers}{', beside ps 1' if job.parameter_server else ''}")
    pods = job.workers + job.parameter_server
    return 'tensorflow: ["--ps=ps", "--worker=worker"]', explained, pods, ranks, tasks


def _mpi(job: NewJob) -> _Parts:
    image = "mpioperator/openmpi:v0.6.0"
    workers = [
        *_image(job, image, has="Open MPI and sshd; add Python, if you need it"),
        *_text_command("sh", "mkdir -p /run/sshd", "exec /usr/sbin/sshd -D"),
        "readinessProbe: {tcpSocket: {port: 22}, periodSeconds: 1}",
        *_resources(job),
    ]
    mpiexec = "exec mpiexec --allow-run-as-root --hostfile /etc/volcano/mpi.hostfile -x PATH \\"
    master = [f"image: {image}", *_text_command("sh", mpiexec, f"  {literal(shlex.join(job.command))} {_USE}")]
    slots = f"{job.gpus} processes" if job.gpus > 1 else "1 process"
    tasks = [
        *_task("worker", job.workers, workers, about="The processes of the program, which mpiexec starts by ssh."),
        *_task(
            "master",
            1,
            master,
            about="Starts mpiexec when every worker accepts connections; when it is done, the job is.",
            more=(*_depends_on("worker"), *_COMPLETES),
        ),
    ]
    explained = f"Writes /etc/volcano/mpi.hostfile ({slots} per worker), and gives all pods the same ssh key."
    ranks = _ranks(job, f"worker {job.workers}, beside the launcher master", in_pod=max(job.gpus, 1))
    return 'mpi: ["--master=master", "--worker=worker"]', explained, job.workers + 1, ranks, tasks


def _ray(job: NewJob) -> _Parts:
    image = f"rayproject/ray:2.40.0{'-gpu' if job.gpus else ''}"
    head = [
        *_image(job, image, has="Ray"),
        "env:",
        '  - {name: RAY_USAGE_STATS_ENABLED, value: "0"}  # Ray sends nothing to its makers',
        "readinessProbe: {tcpSocket: {port: 6379}, periodSeconds: 1}",
        *_resources(job),
    ]
    worker = [f"image: {image}", *_resources(job)]
    driver = [
        f"image: {image}",
        "env:",
        "  - {name: RAY_ADDRESS, value: auto}  # ray.init() joins the cluster, and starts none of its own",
        *_text_command(
            "sh",
            'ray start --num-cpus=0 --address="$(cat /etc/volcano/head.host):6379" &&',
            f"  exec {literal(shlex.join(job.command))} {_USE}",
        ),
    ]
    after_head, others = _depends_on("head"), job.workers - 1
    about = "The head of the Ray cluster, where tasks and actors run, too; the plugin sets its command."
    tasks = [
        *_task("head", 1, head, about=about),
        *(_task("worker", others, worker, about="Where tasks and actors run.", more=after_head) if others else ()),
        *_task(
            "driver",
            1,
            driver,
            about=f"Runs {job.script}, on a node without processors; when it is done, the job is.",
            more=(*after_head, *_COMPLETES),
        ),
    ]
    explained = "Starts a Ray cluster in the tasks head and worker."
    where = "head 1" + (f" + worker {others}" if others else "")
    ranks = _ranks(job, f"{where}, beside driver 1")
    return 'ray: ["--head=head", "--worker=worker"]', explained, job.workers + 1, ranks, tasks


def _depends_on(task: str) -> tuple[str, ...]:
    return ("dependsOn:", f"  name: [{task}]")


_FRAMEWORKS: Final[dict[str, Callable[[NewJob], _Parts]]] = {
    "torch": _torch,
    "mpi": _mpi,
    "tensorflow": _tensorflow,
    "ray": _ray,
}
FRAMEWORKS: Final = tuple(_FRAMEWORKS)

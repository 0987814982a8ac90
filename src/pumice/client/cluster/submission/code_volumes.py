"""Puts the code of a Job into its pods, and takes it out again: volumes, mounts and an init container. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pumice.client.cluster.submission.code_parts import CodeParts
from pumice.client.cluster.submission.job_manifest import (
    Added,
    Before,
    added_key,
    all_of,
    read_added,
    with_added,
    with_containers,
    without_variables,
)
from pumice.diagnosis.pod_ends import CODE_CONTAINER, NO_TOOLS
from pumice.model import keys
from pumice.model.findings import SPEC
from pumice.model.job import Manifest
from pumice.model.problem import Option, Position, Problem
from pumice.store.options import ClusterOptions, CodeMode

NAME: Final = CODE_CONTAINER  # also of the volume
_PARTS: Final = "pumice-code-parts"
_OURS: Final = (NAME, _PARTS)
DEFAULT_DIRECTORY: Final = "/workspace"
PARTS_PATH: Final = "/pumice-code-parts"
CODE_PATH: Final = "/pumice-code"
_FROM_IMAGE: Final = ("imagePullPolicy", "securityContext")
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
# Without these an image does not work.
_SYSTEM: Final = re.compile(
    r"/|/(bin|boot|dev|etc|lib|lib32|lib64|proc|sbin|sys)(/.*)?"
    r"|/(home|opt|run|var(/lib|/run)?|usr(/local)?(/(bin|lib|lib64|sbin|share))?)"
)
_UNPACK_BY_PYTHON: Final = (
    "import glob, hashlib, io, sys, tarfile\n"
    "parts, code, expected = sys.argv[1:]\n"
    'data = b"".join(open(path, "rb").read() for path in sorted(glob.glob(parts + "/*")))\n'
    "found = hashlib.sha256(data).hexdigest()\n"
    "if found != expected:\n"
    '    sys.exit("the code is damaged: its sha256 is " + found + ", not " + expected)\n'
    'options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}\n'
    'tarfile.open(fileobj=io.BytesIO(data), mode="r:gz").extractall(code, **options)\n'
)
# tar may lack gzip; then Python unpacks. An option of tar is `o`: files belong to who unpacks them.
SCRIPT: Final = f"""\
parts={PARTS_PATH} code={CODE_PATH} expected=$1
has() {{ command -v "$1" >/dev/null 2>&1; }}
if has tar && has sha256sum && has cat; then
  found=$(cat "$parts"/* | sha256sum)
  if [ "${{found%% *}}" != "$expected" ]; then
    echo "the code is damaged: its sha256 is ${{found%% *}}, not $expected" >&2
    exit 65
  fi
  cat "$parts"/* | tar -x -z -o -f - -C "$code" && exit 0
fi
if has python3; then
  exec python3 -c '{_UNPACK_BY_PYTHON}' "$parts" "$code" "$expected"
fi
echo "this image can unpack no code: it has neither tar, gzip and sha256sum nor python3" >&2
exit {NO_TOOLS}
"""


def code_problems(manifest: Manifest, options: ClusterOptions) -> Iterator[Problem]:
    """Yield where the code cannot go, and how to say where else."""
    volumes = [str(each.get("mountPath") or "") for each in manifest["spec"].get("volumes") or ()]
    for index, task in enumerate(manifest["spec"]["tasks"]):
        for container in all_of(task):
            directory = code_directory(container, options)
            path = f"{SPEC / 'tasks' / index}: container {container.get('name')}"
            mounts = (each for each in container.get("volumeMounts") or () if each.get("name") not in _OURS)
            why = _why_not(directory, [*volumes, *(str(each.get("mountPath") or "") for each in mounts)])
            if why:
                hint = ("choose another directory: ", Option("code-dir", "DIR"))
                yield Problem(f"{path}: the code would be in {directory}, {why}", hint, Position(option="code-dir"))


def _why_not(directory: str, mounts: Sequence[str]) -> str:
    if not directory.startswith("/"):
        return "which is no absolute path"
    if _SYSTEM.fullmatch(directory):
        return "whose files the image needs"
    for each in mounts:
        mount = posixpath.normpath(each)
        if directory == mount or directory.startswith(mount.rstrip("/") + "/"):
            return f"where the Job mounts {mount}"
    return ""


def code_directory(container: Manifest, options: ClusterOptions) -> str:
    chosen = options.code_directory or str(container.get("workingDir") or "") or DEFAULT_DIRECTORY
    return posixpath.normpath(chosen).replace("//", "/")


def with_code(manifest: Manifest, code: CodeParts, options: ClusterOptions) -> Manifest:
    """Return a Job whose containers have the code in their working directories."""
    manifest = without_code(manifest)
    spec, metadata = manifest["spec"], manifest["metadata"]
    tasks = [_task(task, code, options) for task in spec["tasks"]]
    annotations = {**(metadata.get("annotations") or {}), keys.CODE: code.sha256}
    changed = {**manifest, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, "tasks": tasks}}
    added: Added = {
        added_key(task, container): {"workingDir": container.get("workingDir")}
        for task in spec["tasks"]
        for container in all_of(task)
        if code_directory(container, options) != container.get("workingDir")
    }
    return with_added(changed, added)


def _task(task: Manifest, code: CodeParts, options: ClusterOptions) -> Manifest:
    is_mounted = code.mode is CodeMode.READ_ONLY

    def changed(container: Manifest) -> Manifest:
        directory = code_directory(container, options)
        mount = {"name": NAME, "mountPath": directory, **({"readOnly": True} if is_mounted else {})}
        return {**container, "workingDir": directory, "volumeMounts": [mount, *(container.get("volumeMounts") or ())]}

    first = (((task.get("template") or {}).get("spec") or {}).get("containers") or [{}])[0]
    task = with_containers(task, changed)
    template = task["template"]
    spec = template["spec"]
    volumes = [*([] if is_mounted else [{"name": NAME, "emptyDir": {}}]), _secrets(code)]
    spec = {**spec, "volumes": [*volumes, *(spec.get("volumes") or ())]}
    if not is_mounted:
        spec["initContainers"] = [_init_container(first, code), *(spec.get("initContainers") or ())]
    return {**task, "template": {**template, "spec": spec}}


def _secrets(code: CodeParts) -> Manifest:
    """Return the volume with the Secrets: the parts of a bundle, or the files themselves."""
    is_mounted, sources = code.mode is CodeMode.READ_ONLY, []
    for number, name in enumerate(code.names):
        files = [
            {"key": each.key, "path": each.path, **({"mode": 0o555} if each.mode & 0o100 else {})}
            for each in code.files
            if each.part == number
        ]
        if items := files if is_mounted else [{"key": "part", "path": f"{number:03}"}]:
            sources.append({"secret": {"name": name, "items": items}})
    return {"name": NAME if is_mounted else _PARTS, "projected": {"defaultMode": 0o444, "sources": sources}}


def _init_container(first: Manifest, code: CodeParts) -> Manifest:
    """Unpack with the programs of the task's own image, as its own user, within its own resources."""
    own: dict[str, Any] = {name: first[name] for name in _FROM_IMAGE if first.get(name)}
    if resources := _resources(first):
        own["resources"] = resources
    return {
        "name": NAME,
        "image": first.get("image"),
        "command": ["sh", "-c", SCRIPT, NAME, code.sha256],
        "volumeMounts": [
            {"name": _PARTS, "mountPath": PARTS_PATH, "readOnly": True},
            {"name": NAME, "mountPath": CODE_PATH},
        ],
        # What it prints is the reason of its failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **own,
    }


def _resources(container: Manifest) -> Manifest:
    found = container.get("resources") or {}
    parts = {
        part: {name: amount for name, amount in (found.get(part) or {}).items() if name in _RESOURCES}
        for part in ("requests", "limits")
    }
    return {part: amounts for part, amounts in parts.items() if amounts}


def without_code(manifest: Manifest) -> Manifest:
    """Return a Job without what `--code` put in. Its annotation stays."""
    added = read_added(manifest)

    def changed_of(task: Manifest) -> Manifest:
        def changed(container: Manifest) -> Manifest:
            before = added.get(added_key(task, container), Before())
            mounts = [each for each in container.get("volumeMounts") or () if each.get("name") not in _OURS]
            result = {name: value for name, value in container.items() if name != "volumeMounts"}
            result |= {"volumeMounts": mounts} if mounts else {}
            if "workingDir" in before:
                result.pop("workingDir", None)
                result |= {} if before["workingDir"] is None else {"workingDir": before["workingDir"]}
            return result

        task = with_containers(task, changed)
        spec = dict((task.get("template") or {}).get("spec") or {})
        for field, ours in (("initContainers", (NAME,)), ("volumes", _OURS)):
            if field in spec:
                spec[field] = [each for each in spec[field] if each.get("name") not in ours]
                if not spec[field]:
                    del spec[field]
        return {**task, "template": {**(task.get("template") or {}), "spec": spec}}

    spec = manifest["spec"]
    return {**manifest, "spec": {**spec, "tasks": [changed_of(task) for task in spec.get("tasks") or ()]}}


def hidden_directories(manifest: Manifest, options: ClusterOptions) -> list[str]:
    """Return where the code hides the files of images."""
    tasks = manifest["spec"]["tasks"]
    return list(dict.fromkeys(code_directory(each, options) for task in tasks for each in all_of(task)))


def as_written(manifest: Manifest, on: str = "", kubeconfig: str = "") -> Manifest:
    """Return a stored Job without what options put in. The annotation that names its code stays.

    If it is known `on` which cluster that is, another one says so: then the Job can be run elsewhere with its code.
    """
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    if keys.SUBMISSION not in annotations:
        return manifest
    plain = without_variables(without_code(manifest))
    left_out = (keys.ADDED, keys.SUBMISSION, keys.NOTE, keys.ARGS, keys.CODE_FROM, keys.TIMED_OUT)
    kept = {name: text for name, text in annotations.items() if name not in left_out}
    if on and keys.CODE in kept:
        paths = [
            str(mount.get("mountPath") or "")
            for task in manifest["spec"].get("tasks") or ()
            for container in all_of(task)
            for mount in container.get("volumeMounts") or ()
            if mount.get("name") == NAME and container.get("name") != NAME
        ]
        origin = {"on": on, "kubeconfig": kubeconfig, "directories": [*dict.fromkeys(paths)]}
        kept[keys.CODE_FROM] = msgspec.json.encode(origin).decode()
    return {**plain, "metadata": {**metadata, "annotations": kept}}

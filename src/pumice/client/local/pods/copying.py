"""Copies files into running pods and out of them, and out of pods that have ended if the run keeps their files."""

from __future__ import annotations

import json
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

import msgspec

from pumice.client.local.pods.entering import EnteredCommand, enter_to_copy
from pumice.client.local.pods.local_paths import LinkRefusedError, Location, located, writable_directories
from pumice.client.pod_access import CopyReport, NotStartedError, PodPath, Skipped
from pumice.engines.local.sandbox.sandbox_errors import COPY_DENIED
from pumice.engines.local.sandbox.syscalls import open_beneath
from pumice.engines.local.sandbox.tree_stream import Copy, StreamError, TreeReader, is_denied, reason_of, send
from pumice.model.problem import Command, Option
from pumice.model.text import escaped
from pumice.store.files.run_directory import KEPT
from pumice.store.files.run_store import StoredRun
from pumice.store.run_errors import ConnectionFailed, Denied, InvalidOption, NoSuchPod, RunError, WrongState


def copy_from(run: StoredRun, source: PodPath, local: Path) -> list[Skipped]:
    """Copy a file or a directory of a pod to `local`, or into it if it is a directory. Raises RunError.

    Nothing is written elsewhere, whatever the pod sends, and whatever links it makes where it can write.
    """
    found = CopyReport()
    with _errors_in_pod(run, source), _located(run, local) as location:

        def receive(stream: int, entered: EnteredCommand | None = None) -> None:
            try:
                with os.fdopen(stream, "rb") as sent:
                    target = location.for_copy(source.path)
                    TreeReader(sent, target.directory, target.name, found.add).read()
            except StreamError as error:
                if entered is not None:
                    # The answer of the pod, if there is one, says why the stream ended.
                    entered.code()
                raise ConnectionFailed(f"{source.path}: the copy ended too early: {reason_of(error)}") from error
            except OSError as error:
                raise _local_error(local, error) from error

        try:
            entered = enter_to_copy(run, source.pod, source.container, Copy(source.path))
        except (WrongState, NoSuchPod) as error:
            _copy_kept(run, source, error, receive)
            return found.skipped
        try:
            stdin, stdout, stderr = entered.take_descriptors()
            os.close(stdin)
            os.close(stderr)
            receive(stdout, entered)
            entered.code()
        finally:
            entered.close()
    return found.skipped


def copy_to(run: StoredRun, local: Path, target: PodPath) -> list[Skipped]:
    """Copy a local file or directory to a path of a pod, or into it if it is a directory there. Raises RunError.

    No other file is read, whatever links the pod makes where it can write.
    """
    found = CopyReport()

    def read_report(descriptor: int) -> None:
        """Read what the pod reports. It may report anything."""
        with os.fdopen(descriptor, "rb") as lines:
            for line in lines:
                with suppress(ValueError, TypeError, RecursionError):
                    path, why, error = json.loads(line)
                    found.add(str(path), str(why), bool(error))

    with _errors_in_pod(run, target), _located(run, local) as location, _opened(local, location) as source:
        entered = enter_to_copy(run, target.pod, target.container, Copy(target.path, True, local.resolve().name))
        try:
            stdin, stdout, stderr = entered.take_descriptors()
            os.close(stdout)
            reading = threading.Thread(target=read_report, args=(stderr,), daemon=True)
            reading.start()
            # The pod may have closed its input; then its answer says why.
            with suppress(BrokenPipeError), os.fdopen(stdin, "wb") as out:
                try:
                    send(f"/proc/self/fd/{source}", out)
                except BrokenPipeError:
                    raise
                except OSError as error:
                    raise _local_error(local, error) from error
            entered.code()
            reading.join()
        finally:
            entered.close()
    return found.skipped


@contextmanager
def _errors_in_pod(run: StoredRun, where: PodPath) -> Iterator[None]:
    """Raises InvalidOption or Denied for what the pod cannot read or write."""
    try:
        yield
    except NotStartedError as error:
        parent = str(PurePosixPath(where.path).parent)
        hint = Command("exec", run.ref, where.pod, ("ls", "-la", parent)), " shows what is there"
        kind = Denied if error.kind == COPY_DENIED else InvalidOption
        raise kind(f"{run.ref}/{where.pod}:{where.path}: {error}", hint) from error


@contextmanager
def _located(run: StoredRun, local: Path) -> Iterator[Location]:
    """Yield where a local path leads. Raises InvalidOption for a link that a pod may have made."""
    try:
        with ExitStack() as stack:
            try:
                location = stack.enter_context(located(local, writable_directories(run)))
            except OSError as error:
                raise _local_error(local, error) from error
            yield location
    except LinkRefusedError as error:
        # A pod may have chosen both names.
        link, real = escaped(error.link), escaped(error.real)
        message = f"{local}: {link} is a symbolic link to {real}, and pods of {run.ref} can make links there"
        raise InvalidOption(message, f"if that is what you want, name it instead: {shlex.quote(real)}") from error


@contextmanager
def _opened(local: Path, location: Location) -> Iterator[int]:
    try:
        descriptor = location.opened()
    except OSError as error:
        raise _local_error(local, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _local_error(local: Path, error: OSError) -> RunError:
    hint = ""
    if isinstance(error, FileNotFoundError):
        missing = next((each for each in reversed(local.parents) if not each.exists()), None)
        hint = f"{missing} does not exist" if missing is not None else ""
        hint = hint or ("" if local.is_absolute() else f"the path is relative to {Path.cwd()}")
    return (Denied if is_denied(error) else InvalidOption)(f"{local}: {reason_of(error)}", hint)


def _copy_kept(run: StoredRun, source: PodPath, error: RunError, take: Callable[[int], None]) -> None:
    """Copy what a pod that has ended wrote, if the run keeps it."""
    pod, stored = source.pod, run.directory / "pods" / source.pod
    if not stored.is_dir():
        raise error
    if not (run.directory / KEPT).is_dir():
        hint = "only a run with ", Option("keep", True), " has the files of pods that have ended"
        raise WrongState(f"{run.ref}/{pod} does not run, and its files are not kept", hint)
    newest = max(stored.glob("[0-9]*"), key=lambda each: int(each.name))
    manifest = msgspec.json.decode((newest / "pod.json").read_bytes())
    top, rest = _kept_directory(run, manifest, source)
    reader, writer = os.pipe()
    failure: list[OSError] = []

    def write() -> None:
        try:
            with os.fdopen(writer, "wb") as out:
                opened = open_beneath(str(top), str(rest) if rest.parts else ".")
                try:
                    send(f"/proc/self/fd/{opened}", out)
                finally:
                    os.close(opened)
        except OSError as caught:
            failure.append(caught)

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    try:
        take(reader)
    except RunError:
        writing.join(1)
        if failure:
            why = os.strerror(failure[0].errno or 0).lower()
            message = f"{run.ref}/{pod}:{source.path}: {why} in the files that {pod} wrote"
            raise (Denied if is_denied(failure[0]) else InvalidOption)(message) from failure[0]
        raise


def _kept_directory(run: StoredRun, manifest: dict[str, object], source: PodPath) -> tuple[Path, PurePosixPath]:
    """Return where a path of the pod is kept: the directory of a volume or of the container's layer, and the rest."""
    pod, path = source.pod, PurePosixPath("/") / source.path
    spec: dict[str, list[dict[str, object]]] = msgspec.convert(manifest["spec"], dict)
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    name = source.container or str(spec["containers"][0]["name"])
    chosen = next((each for each in containers if each["name"] == name), None)
    if chosen is None:
        raise NoSuchPod(f"pod {pod} has no container {name}")
    kept = run.directory / KEPT
    uid = next((life.pod.uid for life in run.history().lives_of() if life.name == pod), "")
    mounts: list[dict[str, str]] = msgspec.convert(chosen.get("volumeMounts") or [], list)
    for mount in sorted(mounts, key=lambda each: len(each["mountPath"]), reverse=True):
        volume = kept / "volumes" / "pods" / uid / "volumes" / mount["name"]
        if path.is_relative_to(mount["mountPath"]) and volume.is_dir() and not mount.get("subPath"):
            return volume, path.relative_to(mount["mountPath"])
    full = str(msgspec.convert(manifest["metadata"], dict)["name"])
    layers = list(kept.glob(f"{full}.{name}.[0-9]*"))
    if not layers:
        raise WrongState(f"{run.ref}/{pod}: no file of container {name} is kept")
    return max(layers, key=lambda each: int(each.suffix[1:])), path.relative_to("/")

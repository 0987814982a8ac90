"""Pumice's YAML reader and writer beside PyYAML's, in the same run, and what PyYAML does not provide.

The input is the rendered output of a job, a few hundred pods. `values + lines` is the least that a PyYAML loader needs
to report findings by line: compose the nodes, construct the values, and keep the mark of every key and item.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import yaml

from benchmarks.render import job_of
from pumice.admission.admit import admit
from pumice.client.job_files import render
from pumice.model.findings import Path
from pumice.runtime.offline_context import offline_context
from pumice.yaml.reader import LOADER, parse
from pumice.yaml.writer import write_yaml
from scripts.measuring import best_of

PODS = 200
ROUNDS = 3
# Text that a reader of YAML 1.1 or kubectl takes for something else unless it is quoted.
AMBIGUOUS = ("y", "no", "1e3", "0o17", "08", "1:30", "2024-01-01", "1_000", ".5", "~")
SAMPLE = "apiVersion: batch.volcano.sh/v1alpha1\nspec:\n  tasks:\n  - replicas: 1\n  - replicas: -2\n    replicas: 3\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
)


def written(documents: list[Any]) -> str:
    out = io.StringIO()
    write_yaml(documents, out)
    return out.getvalue()


def dumped(documents: list[Any], dumper: Any) -> str:
    text: str = yaml.dump_all(documents, Dumper=dumper, sort_keys=False, default_flow_style=False, allow_unicode=True)
    return text


def with_lines(text: str, loader: type) -> list[tuple[object, dict[Path, int]]]:
    """Load with PyYAML and keep the line of every path."""

    def walk(node: yaml.Node, path: Path, lines: dict[Path, int]) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                lines[path / key.value] = key.start_mark.line + 1
                walk(value, path / key.value, lines)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                lines[path / index] = item.start_mark.line + 1
                walk(item, path / index, lines)

    documents = []
    constructor = yaml.constructor.SafeConstructor()
    for node in yaml.compose_all(text, Loader=loader):
        lines: dict[Path, int] = {}
        walk(node, Path(), lines)
        documents.append((constructor.construct_document(node), lines))
    return documents


def timed(title: str, functions: dict[str, Callable[[], object]]) -> None:
    print(title)
    seconds = {name: best_of(ROUNDS, function) for name, function in functions.items()}
    own = next(iter(seconds.values()))
    for name, took in seconds.items():
        print(f"  {name:<44} {1000 * took:>7.0f} ms {took / own:>6.2f} times Pumice")


def differences() -> None:
    print("what PyYAML does not provide")
    lines = [problem.message for problem in parse(SAMPLE, "job.yaml")[1]]
    print(f"  duplicate keys: Pumice reports {lines}; PyYAML keeps {yaml.safe_load(SAMPLE)['spec']['tasks'][1]}")
    print(f"  limits: an alias bomb of {len(BOMB)} bytes ends with {parse(BOMB, 'bomb.yaml')[1][0].message!r}")
    unlike = []
    for text in AMBIGUOUS:
        ours, theirs = parse(f"a: {text}", "")[0][0][0], yaml.safe_load(f"a: {text}")
        unlike += (
            [f"{text} = {ours['a']!r}, PyYAML {theirs['a']!r}"] if ours != theirs and isinstance(ours, dict) else []
        )
    print(f"  kubectl's meaning of plain scalars: {'; '.join(unlike)}")
    wrong = [text for text in AMBIGUOUS if parse(dumped([{"a": text}], yaml.SafeDumper), "")[0][0][0] != {"a": text}]
    print(f"  quoting for every reader: kubectl would not read PyYAML's output of {', '.join(wrong)} as text")


def main() -> int:
    admitted = admit(job_of(PODS), offline_context())
    documents: list[Any] = list(render(admitted, "default", "1c2f3d4e-0000-4000-8000-000000000000"))
    text = written(documents)
    safe_loader, safe_dumper = getattr(yaml, "CSafeLoader", yaml.SafeLoader), getattr(yaml, "CSafeDumper", None)
    print(
        f"{len(documents)} documents, {len(text) / 1024:.0f} KiB; libyaml: {'no' if LOADER is yaml.Loader else 'yes'}"
    )
    timed(
        "reader",
        {
            "Pumice: values, lines, limits, duplicates": lambda: parse(text, "pods.yaml"),
            f"PyYAML {safe_loader.__name__}: values": lambda: list(yaml.load_all(text, Loader=safe_loader)),
            f"PyYAML {safe_loader.__name__}: values + lines": lambda: with_lines(text, safe_loader),
            "PyYAML SafeLoader: values": lambda: list(yaml.load_all(text, Loader=yaml.SafeLoader)),
        },
    )
    writers: dict[str, Callable[[], object]] = {"Pumice": lambda: written(documents)}
    if safe_dumper is not None:
        writers["PyYAML CSafeDumper"] = lambda: dumped(documents, safe_dumper)
    writers["PyYAML SafeDumper"] = lambda: dumped(documents, yaml.SafeDumper)
    timed("writer", writers)
    differences()
    return 0


if __name__ == "__main__":
    sys.exit(main())

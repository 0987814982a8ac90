"""Read the documents of a YAML file that a user names on the command line.

A document is plain data that can report the line of any path. Errors are returned as problems; nothing raises. The
limits in `source` and `reader` bound time and memory.
"""

from __future__ import annotations

from msgspec import Struct

from pumice.model.findings import Path
from pumice.model.problem import Position, Problem
from pumice.yaml.marks import MarkTree
from pumice.yaml.reader import parse
from pumice.yaml.source import read_text


class Document(Struct, frozen=True):
    """One document of a file. Aliases share one object, so values must not be changed."""

    value: object
    file: str
    line: int
    marks: MarkTree
    text: str = ""  # as it was written, with its comments
    first: int = 1  # the line of the file on which the text begins

    def position(self, path: Path) -> tuple[int, int]:
        """Return line and column (from 1) of a path's key or list item, or of its nearest ancestor that exists."""
        return self.marks.position(path)


def read(file: str) -> tuple[list[Document], list[Problem]]:
    """Return the non-empty documents of a file (`-`: standard input), and the problems of its text.

    Documents with problems are returned as far as they could be read, so that callers can check the rest.
    """
    text = read_text(file)
    if isinstance(text, Problem):
        return [], [text]
    values, problems = parse(text, file)
    lines = text.splitlines(keepends=True)
    documents = [Document(value, file, marks.line, marks, *_part(lines, marks.line)) for value, marks in values]
    if not documents and not problems:
        hint = "a Job starts with apiVersion: batch.volcano.sh/v1alpha1"
        problems.append(Problem("the file is empty", hint, Position(file, 1, 1)))
    return documents, problems


def _part(lines: list[str], line: int) -> tuple[str, int]:
    """Return the text of the document that has a line, and the line on which it begins."""
    begin = next((number for number in range(line - 1, 0, -1) if lines[number - 1].startswith("---")), 0)
    end = next((number for number in range(line, len(lines)) if lines[number].startswith(("---", "..."))), len(lines))
    return "".join(lines[begin:end]), begin + 1

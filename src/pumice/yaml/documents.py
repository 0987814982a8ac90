"""The one way in for files: everything that a user names on the command line is read here.

Values come back as plain data with a way to ask for the line of any path; what cannot be read comes back as problems.
Nothing raises, whatever the file holds, and time and memory are bounded by the limits in `file_text` and `yaml_reader`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumice.model.findings import Path
from pumice.model.problem import Position, Problem
from pumice.yaml.marks import MarkTree
from pumice.yaml.reader import parse
from pumice.yaml.source import read_text


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file. Parts that the file repeats by alias are the same objects here: never change them."""

    value: object
    file: str
    line: int
    marks: MarkTree

    def position(self, path: Path) -> tuple[int, int]:
        """Line and column (from 1) of a path's key or list item; of the nearest ancestor where it does not exist."""
        return self.marks.position(path)


def read(file: str) -> tuple[list[Document], list[Problem]]:
    """All documents of a file (`-`: standard input) that are not empty, and everything that is wrong with its text.

    A document with problems is returned, too, as well as it could be understood, so that the rest of it can be checked.
    """
    text = read_text(file)
    if isinstance(text, Problem):
        return [], [text]
    values, problems = parse(text, file)
    documents = [Document(value, file, marks.line, marks) for value, marks in values]
    if not documents and not problems:
        hint = "a Job starts with apiVersion: batch.volcano.sh/v1alpha1"
        problems.append(Problem("the file is empty", hint, Position(file, 1, 1)))
    return documents, problems

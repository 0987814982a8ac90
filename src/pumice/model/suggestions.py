"""Suggestions for misspelt words: `did you mean Never?`.

A wrong guess is worse than none, so the distance must be small: another case, one or two letters inserted, deleted,
replaced or swapped, or a word that is cut short.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

# A shorter prefix fits too many words.
_SHORTEST_BEGINNING = 4
# Among more words, or for a longer word, the search takes too long for what the guess is worth.
_MOST_CANDIDATES = 100
_LONGEST_WORD = 100
_SHOWN = 8  # names in a hint


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate closest to `word`, the first one of several; None if none is close."""
    known = list(islice(candidates, _MOST_CANDIDATES + 1))
    if len(known) > _MOST_CANDIDATES or len(word) > _LONGEST_WORD:
        return None
    folded = word.casefold()
    for candidate in known:
        if candidate.casefold() == folded:
            return candidate
    return _nearest_spelling(folded, known) or _only_continuation(folded, known)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return the hint for a finding, or an empty string."""
    match = nearest(word, candidates)
    return f"did you mean {match}?" if match else ""


def known_names(name: str, names: Sequence[str]) -> str:
    """Return the hint for a name that something does not have: `did you mean a? it has a, b, ...`."""
    some = ", ".join((*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])))
    return f"{did_you_mean(name, names)} it has {some}".lstrip()


def _nearest_spelling(folded: str, known: list[str]) -> str | None:
    # No edit for two letters, one for up to five, then two.
    best, allowed = None, min(len(folded) // 3, 2)
    letters = set(folded)
    for candidate in known:
        other = candidate.casefold()
        # One edit changes the length by at most one and removes at most one letter. This rules out most candidates.
        if abs(len(other) - len(folded)) > allowed or len(letters - set(other)) > allowed:
            continue
        distance = _distance(folded, other)
        if distance <= allowed:
            best, allowed = candidate, distance - 1
    return best


def _only_continuation(folded: str, known: list[str]) -> str | None:
    if len(folded) < _SHORTEST_BEGINNING:
        return None
    longer = [candidate for candidate in known if candidate.casefold().startswith(folded)]
    return longer[0] if len(longer) == 1 else None


def _distance(a: str, b: str) -> int:
    """Return the edit distance: letters inserted, deleted, replaced, or swapped with their neighbour."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]

"""Which tests stay in one process when pytest-xdist spreads them: those that share what takes long to start.

A cluster is half a gigabyte and seconds of processor time, so that all tests of tests/cluster have one, but for
those that stop parts of it, which have another. Both groups start first; the other workers run the rest. Tests that
take milliseconds go file by file, because to hand one over takes as long as to run it; so do those of a file that share
a shell or runs. All tests of the page share one browser.
pytest-xdist has groups of its own (`xdist_group`), which it writes into the names of tests; pytest 9.2 takes no such
change any more, and they are spread like all others.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # pytest-xdist declares no types

CLUSTER = "tests/cluster/"
QUICK = ("tests/conformance/", "tests/golden/", "tests/meta/test_tree.py", "tests/scenarios/", "tests/unit/")
SHARING = tuple(f"tests/local/test_{name}.py" for name in ("completion", "logs", "terminal_output"))
PAGE = "tests/page/"
# These stop servers, have a cluster of their own, or start so many controllers that they are best left alone.
ROUGH = ("test_faults.py", "test_crashes.py", "test_guides.py", "test_client_outages.py")


def group_of(test: str) -> str:
    """Tests of one group run in one process, in their order; most that take long are a group each."""
    if test.startswith(QUICK + SHARING):
        return test.partition("::")[0]
    if test.startswith(PAGE):
        return PAGE
    if not test.startswith(CLUSTER):
        return test
    rough = test.removeprefix(CLUSTER).startswith(ROUGH)
    return "kubernetes, rough" if rough else "kubernetes"


class Together(LoadScopeScheduling):  # type: ignore[misc]  # for the same reason
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

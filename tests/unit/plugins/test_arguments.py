"""Every spelling of arguments, good and bad, and that no key is ever shown."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pumice.admission.admit import admit
from pumice.model.findings import SPEC, Finding
from pumice.plugins.arguments import Arguments, Option
from pumice.plugins.env import Env
from pumice.plugins.pytorch import PyTorch
from pumice.plugins.ssh import Ssh
from pumice.plugins.svc import Svc
from tests.builders import a_context, a_document

OPTIONS = (
    Option("task", str, "worker", "a text"),
    Option("port-number", int, 22, "a number", low=1, high=65535),
    Option("count", int, None, "a number that may be left out", low=0),
    Option("offset", int, 0, "any number"),
    Option("wait-long", bool, False, "a truth value"),
    Option("mode", str, "fast", "a choice", choices=("fast", "safe")),
    Option("headContainer", str, "head", "a name in camel case", aliases=("headBox",)),
)


def parsed(*args: str) -> tuple[dict[str, Any], list[Finding]]:
    return Arguments("demo", OPTIONS, SPEC / "plugins" / "demo").parse(args)


@pytest.mark.parametrize(
    ("args", "values"),
    [
        pytest.param([], {}, id="none"),
        # Go's flag package
        pytest.param(["--port-number=9"], {"port-number": 9}, id="two dashes, equals"),
        pytest.param(["-port-number=9"], {"port-number": 9}, id="one dash, equals"),
        pytest.param(["--port-number", "9"], {"port-number": 9}, id="two dashes, next string"),
        pytest.param(["-port-number", "9"], {"port-number": 9}, id="one dash, next string"),
        pytest.param(["--wait-long"], {"wait-long": True}, id="bare boolean"),
        pytest.param(["-wait-long"], {"wait-long": True}, id="bare boolean, one dash"),
        *(
            pytest.param([f"--wait-long={text}"], {"wait-long": value}, id=f"boolean {text}")
            for value, texts in ((True, "1 t T true TRUE True"), (False, "0 f F false FALSE False"))
            for text in texts.split()
        ),
        pytest.param(["--task="], {"task": ""}, id="an empty value"),
        pytest.param(["--task=a=b"], {"task": "a=b"}, id="equals in the value"),
        pytest.param(["--task", "-1"], {"task": "-1"}, id="a value with a dash"),
        pytest.param(["--offset=-5"], {"offset": -5}, id="negative"),
        pytest.param(["--offset=+5"], {"offset": 5}, id="signed"),
        pytest.param(["--count=0"], {"count": 0}, id="the least"),
        # the names of Volcano's documentation
        pytest.param(["--portNumber=9"], {"port-number": 9}, id="camel case, two dashes"),
        pytest.param(["-portNumber=9"], {"port-number": 9}, id="camel case, one dash"),
        pytest.param(["portNumber=9"], {"port-number": 9}, id="camel case, no dash"),
        pytest.param(["portNumber", "9"], {"port-number": 9}, id="camel case, no dash, next string"),
        pytest.param(["waitLong"], {"wait-long": True}, id="camel case, bare boolean"),
        pytest.param(["waitLong=false"], {"wait-long": False}, id="camel case, boolean"),
        pytest.param(["--head-container=x"], {"headContainer": "x"}, id="dashes for a camel case name"),
        pytest.param(["--headContainer=x"], {"headContainer": "x"}, id="the camel case name itself"),
        pytest.param(["headBox=x"], {"headContainer": "x"}, id="an alias"),
        # several in one string, as the documentation prints them
        pytest.param(["--port-number=9 --task=a"], {"port-number": 9, "task": "a"}, id="two in one string"),
        pytest.param(["--port-number 9 --task a"], {"port-number": 9, "task": "a"}, id="two with spaces"),
        pytest.param(["--wait-long --task a\n--count=1"], {"wait-long": True, "task": "a", "count": 1}, id="three"),
        pytest.param(["waitLong=true portNumber=9"], {"wait-long": True, "port-number": 9}, id="two in camel case"),
        pytest.param(["--task=a b"], {"task": "a b"}, id="no known flag behind the space"),
        pytest.param(["--task=a --other"], {"task": "a --other"}, id="an unknown flag behind the space"),
        pytest.param(["--task=a port-number=9"], {"task": "a port-number=9"}, id="a flag needs its dashes"),
        pytest.param(["  --task=a \n"], {"task": "a"}, id="white space around it"),
        pytest.param(["--task ", "a"], {"task": "a"}, id="nothing but white space for a value"),
        pytest.param(["--mode=safe"], {"mode": "safe"}, id="a choice"),
    ],
)
def test_accepted(args: list[str], values: dict[str, Any]) -> None:
    assert parsed(*args) == (values, [])


TAKES = (
    "demo takes --task, --port-number, --count, --offset, --wait-long, --mode, --headContainer (pumice plugins demo)"
)


@pytest.mark.parametrize(
    ("args", "values", "found", "message", "hint"),
    [
        pytest.param(
            ["--prot-number=9"],
            {},
            (0, "--prot-number=9"),
            "unknown argument",
            f'did you mean --port-number? {TAKES}; write demo: ["--port-number=9"]',
            id="misspelt",
        ),
        pytest.param(
            ["port-number=9"],
            {},
            (0, "port-number=9"),
            "unknown argument",
            f'did you mean --port-number? {TAKES}; write demo: ["--port-number=9"]',
            id="without dashes",
        ),
        pytest.param(
            ["--task=a", "--wiat-long"],
            {"task": "a"},
            (1, "--wiat-long"),
            "unknown argument",
            f'did you mean --wait-long? {TAKES}; write demo: ["--task=a", "--wait-long=true"]',
            id="misspelt boolean",
        ),
        pytest.param(
            ["--quux"], {}, (0, "--quux"), "unknown argument", f"{TAKES}; write demo: []", id="like nothing known"
        ),
        pytest.param(
            ["task"],
            {},
            (0, "task"),
            "is not an argument",
            f'did you mean --task? {TAKES}; write demo: ["--task=..."]',
            id="bare word that is a name",
        ),
        pytest.param(["9"], {}, (0, "9"), "is not an argument", f"{TAKES}; write demo: []", id="bare word"),
        pytest.param(
            ["---task=a"],
            {},
            (0, "---task=a"),
            "is not an argument",
            f'did you mean --task? {TAKES}; write demo: ["--task=a"]',
            id="three dashes",
        ),
        pytest.param(["--"], {}, (0, "--"), "is not an argument", f"{TAKES}; write demo: []", id="two dashes alone"),
        pytest.param(["-"], {}, (0, "-"), "is not an argument", f"{TAKES}; write demo: []", id="a dash alone"),
        pytest.param(["=9"], {}, (0, "=9"), "is not an argument", f"{TAKES}; write demo: []", id="no name"),
        pytest.param([""], {}, (0, ""), "an empty argument", f"{TAKES}; write demo: []", id="empty string"),
        pytest.param([" \n"], {}, (0, ""), "an empty argument", f"{TAKES}; write demo: []", id="white space"),
        pytest.param(
            ["--port-number=abc"],
            {},
            (0, "--port-number=abc"),
            "must be between 1 and 65535",
            'write demo: ["--port-number=22"]',
            id="not a number",
        ),
        pytest.param(
            ["--port-number", "70000"],
            {},
            (0, "--port-number=70000"),
            "must be between 1 and 65535",
            'write demo: ["--port-number=22"]',
            id="too large, in the next string",
        ),
        pytest.param(
            ["--portNumber=0"],
            {},
            (0, "--portNumber=0"),
            "must be between 1 and 65535",
            'write demo: ["--port-number=22"]',
            id="too small",
        ),
        pytest.param(
            ["--count=-1"], {}, (0, "--count=-1"), "must be 0 or more", 'write demo: ["--count=..."]', id="no default"
        ),
        pytest.param(
            ["--offset=0x10"],
            {},
            (0, "--offset=0x10"),
            "must be a whole number",
            'write demo: ["--offset=0"]',
            id="hexadecimal",
        ),
        pytest.param(
            ["--offset=010"],
            {},
            (0, "--offset=010"),
            "must be a whole number",
            'write demo: ["--offset=0"]',
            id="a leading zero, which Go takes for octal",
        ),
        pytest.param(
            ["--mode=slow"],
            {},
            (0, "--mode=slow"),
            "must be fast or safe",
            'write demo: ["--mode=fast"]',
            id="not a choice",
        ),
        pytest.param(
            ["--wait-long=maybe"],
            {},
            (0, "--wait-long=maybe"),
            "must be true or false",
            'write demo: ["--wait-long=false"]',
            id="not a truth value",
        ),
        pytest.param(
            ["--wait-long", "false"],
            {"wait-long": True},
            (1, "false"),
            "a boolean takes its value after =",
            'write demo: ["--wait-long=false"]',
            id="a boolean's value in the next string",
        ),
        pytest.param(
            ["--wait-long f"],
            {"wait-long": True},
            (0, "f"),
            "a boolean takes its value after =",
            'write demo: ["--wait-long=false"]',
            id="a boolean's value behind a space",
        ),
        pytest.param(
            ["--task=true", "false"],
            {"task": "true"},
            (1, "false"),
            "is not an argument",
            f'{TAKES}; write demo: ["--task=true"]',
            id="a truth value behind something else",
        ),
        pytest.param(
            ["--task", "--count=1"],
            {"count": 1},
            (0, "--task"),
            "needs a value",
            'write demo: ["--task=worker", "--count=1"]',
            id="another flag where a value belongs",
        ),
        pytest.param(
            ["--count=1", "--task"],
            {"count": 1},
            (1, "--task"),
            "needs a value",
            'write demo: ["--count=1", "--task=worker"]',
            id="nothing where a value belongs",
        ),
    ],
)
def test_refused(args: list[str], values: dict[str, Any], found: tuple[int, str], message: str, hint: str) -> None:
    position, value = found
    assert parsed(*args) == (values, [Finding(SPEC / "plugins" / "demo" / position, message, value, hint)])


def test_what_is_given_twice() -> None:
    values, (found,) = parsed("--task=a", "--count=1", "--task=b")
    assert values == {"task": "b", "count": 1}
    assert (str(found.severity), str(found.path), found.value) == ("warning", "spec.plugins.demo[2]", "--task=b")
    assert found.message == "given twice; the last one counts"
    assert found.hint == 'write demo: ["--task=b", "--count=1"]'


def test_a_plugin_without_arguments() -> None:
    _, (found,) = Env.parse(["x"])
    assert found.hint == "env takes no arguments (pumice plugins env); write env: []"


def test_defect_30_a_bad_argument_does_not_hide_the_others() -> None:
    """Volcano logs the first bad flag and silently drops all that follow; its webhook accepts them."""
    plugin, findings = PyTorch.parse(["--port=x", "--nonsense", "--master=a", "word", "--worker=b"])
    assert (plugin.master, plugin.worker) == ("a", "b")
    assert [(finding.path[-1], finding.message) for finding in findings] == [
        (0, "must be between 1 and 65535"),
        (1, "unknown argument"),
        (3, "is not an argument"),
    ]


def test_the_line_of_the_documentation() -> None:
    svc, findings = Svc.parse(["--publishNotReadyAddresses=false --disableNetworkPolicy=false"])
    assert (svc, findings) == (Svc(publish_not_ready_addresses=False, disable_network_policy=False), [])


@pytest.mark.parametrize(
    ("args", "private", "port"),
    [
        pytest.param(["--ssh-private-key=a --ssh-port=2"], "a --ssh-port=2", 22, id="a flag in the key"),
        pytest.param(["--ssh-private-key a --ssh-port=2"], "a --ssh-port=2", 22, id="behind a space"),
        pytest.param(["--ssh-port=2 --ssh-private-key=a --ssh-port=3\n"], "a --ssh-port=3\n", 2, id="a flag before it"),
        pytest.param(["--ssh-private-key", " a --ssh-port=2\n"], " a --ssh-port=2\n", 22, id="in the next string"),
        pytest.param(["sshPrivateKey=line 1\nline 2\n"], "line 1\nline 2\n", 22, id="lines"),
        pytest.param(["--ssh-private-key=a", "--ssh-port=2"], "a", 2, id="a flag behind it, in its own string"),
    ],
)
def test_keys_are_taken_as_they_are(args: list[str], private: str, port: int) -> None:
    assert Ssh.parse(args) == (Ssh(ssh_private_key=private, ssh_port=port), [])


def test_a_flag_behind_the_name_of_a_key_is_a_flag() -> None:
    ssh, (found,) = Ssh.parse(["--ssh-private-key", "--ssh-port=2"])
    assert ssh == Ssh(ssh_port=2)
    assert (found.message, found.value) == ("needs a value", "--ssh-private-key")


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        pytest.param(["--ssh-privat-key=KEY"], "--ssh-privat-key=...", id="misspelt"),
        pytest.param(["ssh-private-key=KEY"], "ssh-private-key=...", id="without dashes"),
        pytest.param(["--ssh-privat-key KEY"], "--ssh-privat-key=...", id="behind a space"),
        pytest.param(["--ssh-port=KEY"], "--ssh-port=...", id="by the flag of a number"),
        pytest.param(["KEY"], "...", id="alone"),
        pytest.param(["--KEY"], "...", id="with dashes"),
        pytest.param(["KEY=="], "...", id="what ends like base64"),
        pytest.param(["--ssh-port=no"], "--ssh-port=no", id="too short for a key"),
        pytest.param(["word"], "word", id="a short word"),
    ],
)
def test_what_may_be_a_key_is_not_shown(args: list[str], shown: str) -> None:
    key = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0"
    _, (found,) = Ssh.parse([arg.replace("KEY", key) for arg in args])
    assert found.value == shown


def test_a_path_is_shown_in_the_corrected_list() -> None:
    _, (found,) = Ssh.parse(["--ssh-key-file-path=/home/somebody/else/.ssh", "x"])
    assert 'write ssh: ["--ssh-key-file-path=/home/somebody/else/.ssh"]' in found.hint


WINDOW = 24
BASE64 = string.ascii_letters + string.digits + "+/"
lines = st.text(BASE64, min_size=40, max_size=70).filter(lambda line: not line.startswith("/"))


@st.composite
def keys(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text like a key, and the lines of it that must stay secret."""
    body = draw(st.lists(lines, min_size=1, max_size=3))
    if draw(st.booleans()):
        return f"ssh-ed25519 {body[0]} somebody@example.com", body[:1]
    return "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(body) + "==\n-----END RSA PRIVATE KEY-----\n", body


arguments_with_a_key = st.sampled_from(
    [
        ["--ssh-private-key={}"],
        ["--ssh-private-key", "{}"],
        ["--ssh-private-key {}", "junk"],
        ["--ssh-private-key={}", "--ssh-private-key={}"],
        ["--ssh-public-key={}", "--ssh-port=0"],
        ["ssh-private-key={}"],
        ["--ssh-privat-key={}"],
        ["--ssh-key={}"],
        ["--ssh-key-typ={}"],
        ["--ssh-key-type={}"],
        ["--ssh-port={}"],
        ["--ssh-port", "{}"],
        ["--ssh-key-file-path={}", "junk"],
        ["--ssh-key-file-pat={}"],
        ["--unknown={}"],
        ["--unknown {}"],
        ["unknown", "{}"],
        ["{}"],
        ["--{}"],
        ["{}="],
        "--ssh-private-key={}",
        "{}",
        [["{}"]],
        {"--ssh-private-key": "{}"},
        [{"ssh-private-key": "{}"}],
    ]
)


def filled(value: Any, key: str) -> Any:
    if isinstance(value, list):
        return [filled(item, key) for item in value]
    if isinstance(value, dict):
        return {name: filled(item, key) for name, item in value.items()}
    return value.replace("{}", key)


@given(keys(), arguments_with_a_key, st.booleans())
@example(("A" * 64, ["A" * 64]), ["--ssh-key-typ={}"], False)
def test_no_finding_ever_shows_a_key(key: tuple[str, list[str]], value: Any, split: bool) -> None:
    text, secrets = key
    args = filled(value, text)
    if split and isinstance(args, list) and all(isinstance(arg, str) for arg in args):
        args = [word for arg in args for word in arg.split()]
    admitted = admit(a_document(plugins={"ssh": args}), a_context())
    for finding in admitted.findings:
        shown = f"{finding.path} {finding.value!r} {finding.message} {finding.hint}"
        for secret in secrets:
            windows = (secret[start : start + WINDOW] for start in range(len(secret) - WINDOW + 1))
            assert not any(window in shown for window in windows)

"""What the reference says about the commands on runs, besides their arguments."""

from __future__ import annotations

NAMES = """\
A run is `NAME` (the newest run of this Job), `NAME:N`, `@last`, or 8 or more characters of its uid. Commands that only
read take `@last` if no run is named, and name it on standard error. No such run: exit code 2.
"""

RUNS = {
    "submit": """\
The same as `pumice run -d` for each file. Prints the name of each run, `NAME:N`, on standard output. The run goes on
when the terminal is closed. What keeps a run from starting is reported before anything is stored, with exit code 2.
""",
    "ps": """\
`TRY` is the attempt and the number of attempts that the Job allows. `-o json` prints `{"items": [...]}` with `run`,
`name`, `number`, `uid`, `namespace`, `phase`, `pods`, `attempt`, `note`, `created`, `finished`, `exitCode` and more.
Runs in the foreground are listed, too.
""",
    "get": f"""\
{NAMES}
With `--exit-code`: 0 completed, 100 ended without success, 101 not finished, 102 no such run, 103 ended by `stop` or
`suspend`.
""",
    "logs": f"""\
{NAMES}
A pod is `TASK-INDEX`, of the newest run, or `RUN/TASK-INDEX`; a run is tried first. Prints what `pumice run` printed on
standard output: the lines of all pods, containers, restarts and attempts, in the order in which they were printed. On
standard error it names each further attempt of the Job, each restart of a container, and what is missing because the
disk was full. With several runs, the prefix of a line names its run.

`--tail` counts the lines of all pods together, after the other filters. `--previous` shows of each container the
execution before its newest, whether it was restarted in its pod or with the whole Job. `-f` waits for pods that do not
exist yet, continues with restarts and attempts, and ends with the run. With `--json` each line is an object with
`time`, `type`, `run`, `pod`, `container`, `stream`, `attempt`, `restart` and `line`; lines that Pumice wrote have no
`stream`.
""",
    "attach": f"""\
{NAMES}
The exit code is that of the run. Ctrl-C leaves the run running.
""",
    "wait": """\
Exit code 0: all runs completed, or reached the phase. 100: ended without success. 102: no such run. 103: ended by
`stop` or `suspend`. 124: `--timeout`. Of several runs, the highest.
""",
    "why": f"""\
{NAMES}
""",
    "history": """\
A name lists its runs, `NAME:N` the attempts of that run: how long each took, its first failure, and the policy that
acted.
""",
    "top": """\
`CPU` is the number of CPUs that a pod used on average since the sample before, `GPU` the use of its GPUs on average, as
`nvidia-smi` says it. Memory that processes of a pod share counts once. On a terminal the view is live, and ends with
the runs or with Ctrl-C; elsewhere one sample is printed. `--json` prints one object per pod, with `run`, `pod`,
`attempt`, `time`, `t` (seconds on a steady clock), `cpu`, `cpuSeconds`, `memory` (bytes), `gpus`, `gpu` (per cent) and
`gpuMemory`. Of a run that has ended, the last recorded sample is printed.
""",
    "stop": """\
The pods get their grace period; `--force` ends them at once. The command waits until the runs have ended.
""",
    "detach": """\
The run goes on as if it had been submitted; `pumice run` in its terminal prints the name of the run and exits with code
0, as after Ctrl-\\. Without it, a foreground run ends with its terminal.
""",
    "suspend": """\
The command waits until the pods have ended.
""",
    "resume": """\
A resumed run arrives in the queue at its resume; pods that have succeeded are not repeated.
""",
    "restart": """\
It is the Command `RestartJob`: all pods are deleted and created again.
""",
    "scale": """\
The rules are those of an update of the Job on a cluster. Pods that run already do not see the names of new pods.
""",
    "exec": """\
A pod is `TASK-INDEX`, of the newest run, or `RUN/TASK-INDEX`. The command has the container's user, capabilities,
system call filter, limits and environment. Called from a terminal, it has a terminal of the pod, of the same size, and
every key goes to it; elsewhere standard input, output and error are passed on as they are. It ends when this command
ends. The exit code is the command's, 128 + n after signal n, 127 and 126 if it cannot be started.
""",
    "cp": """\
A pod is `TASK-INDEX`, of the newest run, or `RUN/TASK-INDEX`; exactly one of both operands is in a pod. A path is one
of the container: links in it lead where they lead there. As with `cp -r`, a target that is a directory gets the copy
inside of it. The image needs no program for it. Copied are files, directories and links that stay inside of what is
copied, with their modes but without set-id bits; all else is named on standard error. Nothing is written outside of the
target, whatever the pod does meanwhile. A symbolic link on the way to the local path, or at its end, is followed, as
with `cp`. In directories that pods of the run can write to (the working directory, writable `--mount` and hostPath
volumes, claims) a pod may have made it, so there it is an error, which says where the link leads and what to type
instead. Of a pod that has ended, only what a run with `--keep` has kept can be copied: what its containers wrote, and
its volumes. Exit code 1: something could not be copied; 2: bad input, nothing was copied.
""",
    "rm": """\
Removes the records and logs. Directories of claims stay.
""",
    "clean": """\
Removes finished runs by the rules of `[runs]` in `config.toml`, or by `--older-than` and `--max-size`. Without a
terminal it needs `-y`.
""",
    "service": """\
The service starts when a command needs it and ends after five minutes without work. `stop` leaves the jobs running.
`install` writes a unit for the user's systemd, so that interrupted runs go on after the machine starts.
""",
    "export": """\
The archive has the Job, the events and the logs. Values of variables whose names contain TOKEN, SECRET, PASSWORD or KEY
are left out; logs are packed as they were written. Other users of the machine cannot read the file.
""",
    "replay": f"""\
{NAMES}
""",
    "ui": """\
Prints the address of the page and opens it in the browser, if there is a display. The server listens on loopback only.
The address has a token, which works once and is exchanged for a cookie; other users of the machine, other pages and
other host names get nothing. The page shows foreground runs, too. Ctrl-C stops the page, not the runs. Exit code 2: the
port is in use.
""",
}

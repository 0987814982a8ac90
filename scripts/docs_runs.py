"""What the reference says about the commands on runs, besides their arguments."""

from __future__ import annotations

NAMES = """\
A run is `NAME` (the newest run of this Job), `NAME:N`, `@last`, or 8 or more characters of its uid. Commands that only
read take `@last` if no run is named, and name it on standard error. No such run: exit code 2.
"""

RUNS = {
    "submit": """\
The same as `pumice run -d` for each file. Prints the name of each run, `NAME:N`, on standard output, and where its
ports are published on standard error, if it starts at once. The run goes on when the terminal is closed. What keeps a
run from starting is reported before anything is stored, with exit code 2.
""",
    "ps": """\
`STATUS` is the outcome: `Held`, `Waiting`, `Starting`, `Running`, `Restarting`, `Stopping`, `Suspended`, `Succeeded`,
`Failed` or `Stopped`. A run that a person ended is `Stopped`: by `stop`, Ctrl-C, SIGTERM, a closed terminal or closed
output. Whatever else ended without success is `Failed`, also if a policy terminated or aborted the Job, or `--timeout`
stopped it. `-o wide` adds the phase of the Job, what a run holds, and `PORTS`, the addresses of published ports. `PODS`
counts those that run; of a run that has ended, those that succeeded. `TRY` is the attempt and how many there may be:
`maxRetry`, and one more for each restart that cost no retry. `NOTE` has the arguments of the program, your note, and
why the run waits, failed or was stopped; `no output for 80s` if no pod prints anything.

`-o json` prints `{"items": [...]}` with `run`, `name`, `number`, `uid`, `namespace`, `outcome`, `phase`, `pods`,
`attempt`, `note` (yours), `args` (a list), `message` (why it waits, failed or was stopped), `created`, `finished`,
`exitCode`, `hang`, `published` and more. Runs in the foreground are listed, too.
""",
    "get": f"""\
{NAMES}
`-o yaml` prints the Job as it was submitted, with its arguments, as a file that `validate` accepts: no status, nothing
that a run adds. The value of a secret argument is a variable in it, `$(ARG_API_KEY)`: run it with `--env ARG_API_KEY`.

With `--exit-code`: 0 `Succeeded`, 100 `Failed`, 101 not finished, 102 no such run, 103 `Stopped` or `Suspended`.
""",
    "logs": f"""\
{NAMES}
A pod is `TASK-INDEX`, of the newest run, or `RUN/TASK-INDEX`; a run is tried first. Prints what `pumice run` printed on
standard output: the lines of all pods, containers, restarts and attempts, in the order in which they were printed. On
standard error it names each further attempt of the Job, each restart of a container, where the run was suspended,
resumed or interrupted, and what is missing because the disk was full. With several runs, the prefix of a line names its
run.

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
`--for` takes `finished`, an outcome such as `Failed` or a phase such as `Completed`; case does not count. Exit code 0:
all runs are `Succeeded`, or reached the goal. 100: `Failed`. 102: no such run. 103: `Stopped` or `Suspended`. 124:
`--timeout`. Of several runs, the highest.
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
    "forward": """\
The first line on standard output is the address, `127.0.0.1:LOCAL`. Only programs of this machine reach it. Any
number of connections are open at a time; the process of the run opens each in the network of the pod. A new
connection goes to the pod that has the name then, also after a restart; while nothing listens there, it is reset. A
LOCAL that is taken is refused with exit code 2, and the process that holds it is named. It ends when it is
interrupted (exit code 130), or with a line when the run has ended, or the pod without being replaced: exit code 0 if
it succeeded, else 1.
""",
    "open": """\
Stores the run of an archive below the state directory, and prints its name, `NAME:N@file`, which `logs`, `why`,
`get`, `history`, `replay`, `export` and the page take; `ps -a` lists it, and `rm` removes it. It is never active,
removed by age, or run again. The same archive again is the same run. An archive has no values of secrets, and no code
or data of the job. It is untrusted input: one with links, devices, names that lead elsewhere, more than 8 GiB or
100,000 files, or contents that cannot be read is refused with exit code 2 and one line for each finding, and nothing
of it is left.
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

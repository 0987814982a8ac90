"""The init container in which a torch worker waits until its master answers.

It needs an image with a shell and `nc` or `bash`. It uses the kernel's uptime as clock where available, so that neither
a slow probe nor a change of the system time extends the timeout.
"""

from __future__ import annotations

import shlex
from typing import Final

from pumice.model.job import Manifest

NAME: Final = "wait-for-master"

# Enough for a shell, and small. A namespace with a quota refuses containers without resources.
RESOURCES: Final = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}
# The requirements of Kubernetes' `restricted` pod security level.
SECURITY_CONTEXT: Final = {
    "runAsUser": 65534,
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}

# `bounded` ends a probe that exceeds its share of the time: neither nc's name look-up nor a plain connect through
# /dev/tcp has a timeout. It sends SIGTERM before SIGKILL, so that `timeout` can end its child. The nc of Debian's
# busybox has no -z, but can run a program once it is connected. dash has no /dev/tcp, so the script uses bash if it
# exists. The script avoids `$(x)`, because Kubernetes substitutes variables in that form.
SCRIPT: Final = """\
host={host}
port={port}
limit={limit}

start=
tick() {{
  if [ -r /proc/uptime ]; then read -r clock rest </proc/uptime; clock=${{clock%.*}}; else clock=`date +%s`; fi
  start=${{start:-$clock}}
  waited=$((clock - start))
}}

bounded() {{
  tick
  share=$((limit - waited))
  [ "$share" -gt 0 ] || return 1
  [ "$share" -lt 3 ] || share=3
  "$@" >/dev/null 2>&1 </dev/null &
  probe=$!
  (sleep "$share"; kill "$probe"; sleep 1; kill -9 "$probe") >/dev/null 2>&1 &
  guard=$!
  wait "$probe" 2>/dev/null
  answer=$?
  kill "$guard" 2>/dev/null
  wait "$guard" 2>/dev/null
  return "$answer"
}}

connect='exec 3<>"/dev/tcp/$0/$1"'
shell=
if command -v bash >/dev/null 2>&1; then shell=bash
elif [ -n "$BASH_VERSION" ]; then shell=sh; fi

answers() {{
  if command -v nc >/dev/null 2>&1; then
    if bounded nc -z "$host" "$port" || bounded nc "$host" "$port" -e true; then return 0; fi
  fi
  [ -n "$shell" ] || return 1
  if command -v timeout >/dev/null 2>&1; then bounded timeout 3 "$shell" -c "$connect" "$host" "$port"
  else bounded "$shell" -c "$connect" "$host" "$port"; fi
}}

if [ -z "$shell" ] && ! command -v nc >/dev/null 2>&1; then
  echo "cannot wait for $host:$port: this image has neither nc nor bash" >&2
  echo "choose another image, such as --wait-master-image=busybox:1.36.1" >&2
  exit 1
fi

echo "waiting for $host:$port (up to ${{limit}}s)"
tick
while [ "$waited" -lt "$limit" ]; do
  if answers; then
    tick
    echo "master answered after ${{waited}}s"
    exit 0
  fi
  tick
  [ "$waited" -ge "$limit" ] || sleep 1
  tick
done
echo "gave up on $host:$port: no answer in ${{waited}}s" >&2
echo "check that the master runs and listens on port $port, or raise --wait-master-timeout (now $limit)" >&2
exit 1
"""


def waiting_container(host: str, port: int, timeout: int, image: str, pull_policy: str | None) -> Manifest:
    """Return the init container; `timeout` is in seconds."""
    script = SCRIPT.format(host=shlex.quote(host), port=port, limit=timeout)
    container: Manifest = {"name": NAME, "image": image, "command": ["sh", "-c", script]}
    if pull_policy:
        container["imagePullPolicy"] = pull_policy
    return container | {"resources": RESOURCES, "securityContext": SECURITY_CONTEXT}

"""containerd and kubelet on this machine, in the namespaces that `make kubelet` made."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from scripts.kubelet_settings import NODE_ADDRESS, Settings
from tests.cluster.api import eventually
from tests.cluster.cluster import Cluster
from tests.cluster.processes import Daemon
from tests.kubelet import image
from tests.kubelet.dns import DOMAIN, Dns

NAME = "node"
SOCKET = "/run/containerd/containerd.sock"

CONTAINERD = """
version = 2
root = {root}
state = "/run/containerd"
[grpc]
  address = {socket}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {pause}
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {plugins}
    conf_dir = {network}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = {spec}
"""
NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }
    ],
}


@dataclass(slots=True)
class Node:
    cluster: Cluster
    settings: Settings
    folder: Path
    dns: Dns = field(init=False)

    def __post_init__(self) -> None:
        self.dns = Dns(self.cluster, NODE_ADDRESS)

    def start(self) -> None:
        self.dns.start()
        self._start_containerd()
        self._import_images()
        self.start_kubelet()

    def stop(self) -> None:
        """Stop the programs; their namespaces end what is left of pods."""
        for name in ("kubelet", "containerd"):
            if name in self.cluster.daemons:
                self.cluster.daemons.pop(name).stop()
        self.dns.stop()

    @property
    def kubelet(self) -> Daemon:
        return self.cluster.daemons["kubelet"]

    def start_kubelet(self) -> None:
        config = self.folder / "kubelet.json"
        config.write_text(json.dumps(self._configuration()))
        arguments = [
            self.settings.kubelet,
            f"--config={config}",
            f"--kubeconfig={self.cluster.kubeconfig('system:node:node')}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--hostname-override={NAME}",
            f"--node-ip={NODE_ADDRESS}",
            "--v=2",
        ]
        daemon = self._daemon("kubelet", arguments)
        daemon.start()
        daemon.wait_ready(self.is_ready)
        # The node controller removes the taint a moment later.
        api = self.cluster.api()
        eventually("the node has no taint", lambda: not api.get("Node", "", NAME)["spec"].get("taints"))

    def is_ready(self) -> bool:
        node = self.cluster.api().find("Node", "", NAME) or {}
        conditions = node.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _configuration(self) -> dict[str, object]:
        resolver = self.folder / "resolv.conf"
        resolver.write_text(f"nameserver {NODE_ADDRESS}\n")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.settings.cgroup}",
            "clusterDNS": [NODE_ADDRESS],
            "clusterDomain": DOMAIN,
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            # A full disk is the user's, and images cannot be pulled again.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "nodeLeaseDurationSeconds": 8,
            "nodeStatusUpdateFrequency": "4s",
            "oomScoreAdj": 0,
            "resolvConf": str(resolver),
            # How often kubelet looks whether a Secret in a volume has changed; a minute unless told.
            "syncFrequency": "5s",
            # How often it measures emptyDir volumes, which have limits.
            "volumeStatsAggPeriod": "5s",
            "volumePluginDir": str(self.folder / "volume-plugins"),
        }

    def _start_containerd(self) -> None:
        network = self.folder / "network"
        network.mkdir()
        (network / "pods.conflist").write_text(json.dumps(NETWORK))
        values = {
            "root": self.folder / "containerd",
            "socket": SOCKET,
            "pause": image.PAUSE,
            "plugins": self.settings.plugins,
            "network": network,
            "spec": self._base_spec(),
        }
        config = self.folder / "containerd.toml"
        config.write_text(CONTAINERD.format(**{name: json.dumps(str(value)) for name, value in values.items()}))
        daemon = self._daemon("containerd", ["containerd", f"--config={config}"])
        daemon.start()
        daemon.wait_ready(lambda: Path(SOCKET).exists())

    def _base_spec(self) -> Path:
        """What containerd would start from, and the host's directories."""
        spec = json.loads(self._ctr("oci", "spec"))
        for folder in self.settings.mounts:
            options = ["rbind", "ro", "nosuid"]
            spec["mounts"].append({"destination": folder, "source": folder, "type": "bind", "options": options})
        file = self.folder / "spec.json"
        file.write_text(json.dumps(spec))
        return file

    def _import_images(self) -> None:
        archive = self.folder / "images.tar"
        image.write_archive(archive, self.folder, self.settings.python)
        self._ctr("--namespace=k8s.io", "images", "import", str(archive))

    def _ctr(self, *arguments: str) -> str:
        command = ["ctr", f"--address={SOCKET}", *arguments]
        environ = {"PATH": self.settings.path}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"ctr {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def _daemon(self, name: str, arguments: list[str]) -> Daemon:
        environ = {"PATH": f"{self.settings.path}{os.pathsep}{os.defpath}", "HOME": "/nonexistent"}
        log = self.folder / f"{name}.log"
        self.cluster.daemons[name] = daemon = Daemon(name, arguments, log, self.cluster.reaper, environ)
        return daemon

"""The examples at the end of `pumice COMMAND --help`, two for every command. A test runs or parses each of them."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = {
    "init": ("pumice init train.py --workers 4", "pumice init tune.py --framework ray --gpus 1 -o tune-gpu.yaml"),
    "validate": ("pumice validate job.yaml", "pumice validate job.yaml --on prod -n team-a"),
    "render": ("pumice render job.yaml", "pumice render job.yaml --gang native -o json"),
    "explain": ("pumice explain job.yaml", "pumice explain job.yaml worker-1"),
    "plugins": ("pumice plugins", "pumice plugins pytorch"),
    "run": (
        "pumice run train.py --workers 2 -- --lr 0.1",
        "pumice run job.yaml --fit --env EPOCHS=1 --mount ./src:/workspace:ro",
    ),
    "image": ("pumice image add registry.example/app:v1=./app", "pumice image pull python:3.12"),
    "simulate": ("pumice simulate job.yaml --fail worker-1@30s:137", "pumice simulate job.yaml -s scenario.yaml"),
    "webhook": (
        "pumice webhook --kubeconfig ~/.kube/config --listen 10.0.0.5:9443 --register",
        "pumice webhook --service pumice-webhook --namespace pumice-system",
    ),
    "install": (
        "pumice install --image registry.example/pumice:1 | kubectl apply -f -",
        "pumice install --check --context my-cluster",
    ),
    "controller": (
        "pumice controller --kubeconfig ~/.kube/config --gang native",
        "pumice controller --namespace team-a --namespace team-b",
    ),
    "contexts": ("pumice contexts", "pumice contexts -o json"),
    "nodes": ("pumice nodes", "pumice nodes --on prod"),
    "schema": ("pumice schema > job.schema.json", "pumice schema | jq .properties.spec"),
    "completion": (
        "source <(pumice completion bash)",
        "pumice completion fish > ~/.config/fish/completions/pumice.fish",
    ),
    "submit": ("pumice submit job.yaml -- --lr 0.1", "pumice submit job.yaml --note 'lower learning rate'"),
    "ps": ("pumice ps", "pumice ps -a -o wide"),
    "get": ("pumice get ddp:3", "pumice get ddp:3 -o json"),
    "logs": ("pumice logs", "pumice logs ddp:3/worker-1 -f --tail 20"),
    "attach": ("pumice attach", "pumice attach ddp:3"),
    "detach": ("pumice detach ddp:3", "pumice detach @last"),
    "wait": ("pumice wait ddp:3", "pumice wait ddp:3 sweep --timeout 1h"),
    "why": ("pumice why", "pumice why ddp:3 -o json"),
    "history": ("pumice history ddp", "pumice history ddp:3 --events"),
    "top": ("pumice top", "pumice top ddp:3 --interval 5s"),
    "stop": ("pumice stop ddp:3", "pumice stop --all"),
    "suspend": ("pumice suspend ddp:3", "pumice suspend ddp:3 sweep"),
    "resume": ("pumice resume ddp:3", "pumice resume ddp:3 sweep"),
    "restart": ("pumice restart ddp:3", "pumice restart @last"),
    "scale": ("pumice scale ddp:3 worker=4", "pumice scale @last worker=2 ps=1"),
    "exec": ("pumice exec worker-0 -- bash", "pumice exec ddp:3/worker-1 -- sh -c 'ls /data'"),
    "forward": ("pumice forward tb-0 6006", "pumice forward ddp:3/worker-1 8123:8080"),
    "cp": ("pumice cp worker-0:/data/model.pt .", "pumice cp ./config ddp:3/worker-1:/etc/app"),
    "rm": ("pumice rm ddp:3", "pumice rm ddp:3 --force"),
    "clean": ("pumice clean --dry-run", "pumice clean --older-than 7d -y"),
    "service": ("pumice service status", "pumice service install"),
    "export": ("pumice export ddp:3", "pumice export ddp:3 -o - --no-logs"),
    "open": ("pumice open ddp-3.tar.gz", "pumice open - < ddp-3.tar.gz"),
    "ui": ("pumice ui", "pumice ui --port 8080 --no-open"),
    "replay": ("pumice replay", "pumice replay ddp:3"),
}

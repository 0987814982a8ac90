"""Trains a small classifier on all ranks, writes a checkpoint after each epoch and resumes from the last one.

The data: points on the three arms of a spiral. The network learns which arm a point lies on.
`examples/ddp-resume.yaml` runs this program; its pytorch plugin sets what `init_process_group` reads: MASTER_ADDR,
MASTER_PORT, RANK and WORLD_SIZE.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = int(os.environ.get("EPOCHS", "10"))
DIE_IN_EPOCH = int(os.environ.get("DIE_IN_EPOCH", "0"))
CHECKPOINT = Path(os.environ.get("CHECKPOINTS", "."), "checkpoint.pt")


def spiral(points: int = 1200, arms: int = 3) -> TensorDataset:
    arm = torch.arange(points) % arms
    radius = torch.rand(points)
    angle = 4 * radius + 2 * torch.pi * arm / arms + 0.1 * torch.randn(points)
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), arm)


def train(rank: int, ranks: int) -> None:
    torch.manual_seed(0)  # the same data and the same first weights on every rank and in every attempt
    data = spiral()
    network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = DistributedSampler(data)  # gives each rank its own share of the points
    loader = DataLoader(data, batch_size=64, sampler=sampler)

    if rank == 0:
        print(f"training on {ranks} ranks")

    done = 0
    if CHECKPOINT.exists():
        state = torch.load(CHECKPOINT)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["epoch"]
        if rank == 0:
            print(f"resumed from epoch {done}")

    for epoch in range(done + 1, EPOCHS + 1):
        sampler.set_epoch(epoch)  # another order in each epoch, the same one in each attempt
        total = torch.zeros(())
        for points, arm in loader:
            loss = nn.functional.cross_entropy(model(points), arm)
            optimizer.zero_grad()
            loss.backward()  # averages the gradients of all ranks
            optimizer.step()
            total += loss.detach()

        # What this example is about. Without a checkpoint at the start this is the first attempt.
        if epoch == DIE_IN_EPOCH and rank == ranks - 1 and done == 0:
            print(f"rank {rank} dies in epoch {epoch}")
            os._exit(1)

        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch:2} of {EPOCHS}: loss {total / len(loader) / ranks:.3f}")
            save({"epoch": epoch, "network": network.state_dict(), "optimizer": optimizer.state_dict()})
        dist.barrier()  # no rank goes on before the checkpoint is written

    if rank == 0:
        points, arm = data.tensors
        right = (network(points).argmax(dim=1) == arm).float().mean()
        print(f"trained {EPOCHS} epochs: the network knows the arm of {right:.0%} of the points")


def save(state: dict) -> None:
    """Write beside the checkpoint and rename: a crash meanwhile leaves the last one as it was."""
    unfinished = CHECKPOINT.with_suffix(".tmp")
    torch.save(state, unfinished)
    unfinished.replace(CHECKPOINT)


def main() -> None:
    dist.init_process_group("gloo")  # "nccl" where each rank has a GPU
    try:
        train(dist.get_rank(), dist.get_world_size())
    except RuntimeError as error:
        if "peer" not in str(error):
            raise
        sys.exit(1)  # another rank is gone: its pod says why, and this one needs no traceback
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # DistributedDataParallel keeps threads of the group, and a process that ends with them may crash.
    sys.stdout.flush()
    os._exit(0)

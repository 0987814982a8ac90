"""Replaces the program of Volcano's PyTorch example: sends a number around a ring of all ranks.

Each rank receives a tensor from the previous rank and sends it to the next one; rank 0 starts, and ends when it
receives the tensor from the last rank.
"""

import os

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 0:
    print(f"rank 0 of {size} listening on port {os.environ['MASTER_PORT']}", flush=True)
dist.init_process_group("gloo")

number = torch.tensor([42.0 if rank == 0 else 0.0])
before, after = (rank - 1) % size, (rank + 1) % size
if rank == 0:
    dist.send(number, after)
    dist.recv(number, before)
    print(f"ring closed: {number.item()}", flush=True)
else:
    dist.recv(number, before)
    print(f"rank {rank} of {size}: received {number.item()} from rank {before}", flush=True)
    dist.send(number, after)

# A rank must not exit while others still wait for its data.
dist.barrier()
dist.destroy_process_group()

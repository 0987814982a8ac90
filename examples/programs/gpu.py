"""Computes the largest eigenvalue of a matrix on all ranks: on GPUs with NCCL, else on processors with gloo.

Power iteration: multiply a vector by the matrix again and again. Each rank has its own rows of the matrix.
"""

import torch
import torch.distributed as dist

SIZE = 1000

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
print(f"rank {rank} of {ranks} uses {device.type}")

# A symmetric matrix of which the largest eigenvalue is known: n on the diagonal, 1 elsewhere has 2n - 1.
rows = torch.arange(rank, SIZE, ranks, device=device)
matrix = torch.ones(len(rows), SIZE, device=device)
matrix[torch.arange(len(rows)), rows] = SIZE

vector = torch.rand(SIZE, generator=torch.Generator().manual_seed(0)).to(device)
for _ in range(50):
    product = torch.zeros(SIZE, device=device)
    product[rows] = matrix @ vector
    dist.all_reduce(product)
    eigenvalue = product.norm() / vector.norm()
    vector = product / product.norm()
if rank == 0:
    print(f"the largest eigenvalue is {eigenvalue:.1f}")
dist.destroy_process_group()

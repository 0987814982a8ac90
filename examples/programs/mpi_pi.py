"""Computes pi with MPI: each rank integrates its share of the strips, and rank 0 gets the sum."""

import socket

from mpi4py import MPI

STRIPS = 1_000_000

world = MPI.COMM_WORLD
width = 1 / STRIPS
# The midpoint rule, on every n-th strip.
part = sum(4 / (1 + ((strip + 0.5) * width) ** 2) for strip in range(world.rank, STRIPS, world.size)) * width
pi = world.reduce(part, op=MPI.SUM, root=0)
hosts = world.gather(socket.gethostname(), root=0)
if world.rank == 0:
    print(f"pi is {pi:.10f}, computed by {world.size} ranks on {', '.join(hosts)}")

"""What the pods of a run use of CPUs, memory and GPUs, over time."""

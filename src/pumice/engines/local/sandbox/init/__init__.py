"""The process with pid 1 of a job: it starts, watches and ends containers."""

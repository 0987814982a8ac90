"""What a run shows in a terminal: a header, log lines with the names of pods, the state of the job, the verdict."""

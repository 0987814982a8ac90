"""Job plugins: pure functions that give pods what their framework needs. Each knows the model and nothing else."""

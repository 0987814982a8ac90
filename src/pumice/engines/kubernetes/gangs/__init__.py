"""How the pods of a job come to start together: one provider for each kind of scheduler that a cluster may have."""

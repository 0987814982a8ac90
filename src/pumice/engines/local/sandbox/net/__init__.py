"""The network namespace of a job."""

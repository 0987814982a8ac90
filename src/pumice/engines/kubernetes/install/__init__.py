"""What a cluster needs for Pumice: custom resources, permissions, the workload; and what one has and lacks."""

"""What commands read of a cluster besides the state of a Job."""

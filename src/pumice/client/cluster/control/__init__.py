"""Changes of Jobs on a cluster, and who may make them."""

"""Gang scheduling on a cluster: which provider serves, and the PodGroups of its API."""

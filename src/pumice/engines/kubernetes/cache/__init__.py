"""The cache of the cluster: informers, stores, decoders, and an index from each job to its objects."""

"""`pumice install`: CustomResourceDefinitions, permissions and workloads, and the checks of `--check`."""

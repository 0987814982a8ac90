"""Why a Job on a cluster waits: `why_on_cluster.py` asks the layers in order, one module each."""

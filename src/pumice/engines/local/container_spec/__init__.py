"""From a pod manifest, its image and this machine to the specification of a container in the sandbox."""

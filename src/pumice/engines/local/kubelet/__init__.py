"""What a kubelet does with a pod: init containers, containers, probes, restarts, logs."""

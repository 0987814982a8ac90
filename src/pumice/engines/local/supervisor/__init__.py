"""The processes of runs: started by the service, or held by a client, and reachable through a control socket."""

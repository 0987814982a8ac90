"""The processes of runs: started by the service, or by a client that holds a lease; each has a control socket."""

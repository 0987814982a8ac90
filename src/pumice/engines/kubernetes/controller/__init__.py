"""The controller process: leader election, engine, owned objects, events, metrics."""

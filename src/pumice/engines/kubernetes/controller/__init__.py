"""The controller process: engine, owned objects, events, leader election, health, metrics."""

"""An engine in memory, with a clock of its own: what `simulate` plays on, and what most tests use."""

"""Settings of a run, and its files below `$XDG_STATE_HOME/pumice`."""

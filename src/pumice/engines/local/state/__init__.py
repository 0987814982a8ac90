"""Settings of a run; the state directory, `$XDG_STATE_HOME/pumice`, and its claims."""

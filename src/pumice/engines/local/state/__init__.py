"""Files below `$XDG_STATE_HOME/pumice`: run directories and settings."""

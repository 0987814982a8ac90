"""The store of runs below `$XDG_STATE_HOME/pumice`: a directory per run, with one writer; plain files, no database."""

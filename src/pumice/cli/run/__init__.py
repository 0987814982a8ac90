"""`pumice run`: its flags, its settings, and what it shows on a terminal."""

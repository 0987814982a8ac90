"""How much memory containers have, where no control group counts it; job-init reads it."""

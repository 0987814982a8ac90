"""Jobs of a cluster for a program that stays open: watches keep them current, so that it reads memory."""

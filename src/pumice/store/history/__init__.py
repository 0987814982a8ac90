"""What happened in a run: the entries of its journal, and the one fold of them."""

"""The geometry of what the page draws: positions, widths and paths as numbers and text, without markup."""

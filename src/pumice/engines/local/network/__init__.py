"""Pod addresses, outbound traffic and published ports."""

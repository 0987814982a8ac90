"""Which files of this machine a job may use: what needs consent, what stays hidden, what is remembered."""

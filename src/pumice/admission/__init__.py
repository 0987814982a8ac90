"""Admission: the defaults of a Job and the rules that it must follow. Pure."""

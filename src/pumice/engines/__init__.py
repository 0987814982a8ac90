"""Where jobs really happen: each engine implements the port of `pumice.runtime.ports`, and knows no other engine."""

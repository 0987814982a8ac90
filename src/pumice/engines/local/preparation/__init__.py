"""From a request to a run that may start: sizes, checks, images, the record of the run and its place in the queue."""

"""The model: the Job, its names, its pods and owned objects, and findings about documents. Pure."""

VERSION = "0.1.0"  # of Pumice; the build reads it from here. To look it up in the installed metadata takes 20 ms

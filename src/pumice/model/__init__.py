"""The model: the Job, its names, its pods and owned objects, and findings about documents. Pure."""

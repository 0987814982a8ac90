"""What things are: the Job, its names, its pods and objects, and findings about them. Pure; knows nothing above it."""

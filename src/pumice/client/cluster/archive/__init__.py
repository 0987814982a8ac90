"""What outlives the pods of a Job: archives, and the ends of logs that its controller keeps."""

"""What is known about runs, whoever runs them: their names, errors, events, record, history, logs and samples."""

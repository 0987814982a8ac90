"""Why a run waits, hangs or failed, as values. Pure: lines of logs, pods and statuses come in as values."""

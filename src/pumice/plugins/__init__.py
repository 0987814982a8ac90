"""Job plugins: pure functions that configure pods for their framework. A plugin imports only the model."""

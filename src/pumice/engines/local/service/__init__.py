"""The service of a user on this machine: starts queued runs, recovers lost ones, removes old ones. It owns no sandbox.

`python -m pumice.engines.local.service` runs it; `service/on_demand.py` starts it when a command needs it.
"""

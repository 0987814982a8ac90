"""The variables of containers, and what variables and volumes refer to: ConfigMaps, Secrets, fields of the pod."""

"""The local engine: pods as processes of this machine, in namespaces of their own."""

"""Pods as processes in namespaces of their own. The standard library only, and nothing else of Pumice.

    engine .................. `client.Sandbox`, asyncio, in the process of `pumice run`
     `- keeper .............. `jobinit.main`: makes the user namespace, waits, and sweeps up after all is over
         `- job-init ........ pid 1 of the job: its network namespace is the switch, it starts every container
             |- container ... pid 1 of a pid namespace of its own: the command itself
             `- container

The engine's process is watched by pidfd: when it dies, however that comes, job-init ends, and with the first process of
a pid namespace the kernel ends all others. What they held (network, mounts) belonged to them and goes too.
"""

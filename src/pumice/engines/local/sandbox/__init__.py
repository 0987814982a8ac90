"""Pods as processes in namespaces of their own. Its programs import only the standard library and `model.pumice_error`.

    engine .................. `client.Sandbox`, asyncio, in the process of `pumice run`
     `- supervisor .......... `init.job_init.main`: creates the user namespace, waits, and cleans up at the end
         `- job-init ........ pid 1 of the job: its network namespace is the router, it starts every container
             |- container ... pid 1 of its own pid namespace: the command itself
             `- container

job-init watches the engine by a pidfd and exits when the engine dies. With the first process of a pid namespace the
kernel kills all others, and with them their networks and mounts end.
"""

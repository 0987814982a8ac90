"""Replaces the program of Volcano's TensorFlow example: parameter servers and workers train a classifier of ten digits.

The parameter servers hold the variables of the model. Each worker computes gradients on its own share of the data and
applies them without waiting for the others, in the style of TensorFlow 1. The digits are ten random pictures with
noise, so nothing has to be downloaded.
"""

import json
import os
import socket
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow.compat.v1 as tf

Membership = tuple[dict[str, list[str]], str, int]  # the hosts of each role, the role of this process, and its index
STEPS = 100
PIXELS, DIGITS = 28 * 28, 10


def by_tf_config() -> Membership | None:
    """Read TF_CONFIG; return None if it is invalid or does not name this host."""
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        cluster, role, index = config["cluster"], config["task"]["type"], config["task"]["index"]
        host = cluster[role][index].partition(":")[0].partition(".")[0]
    except (LookupError, TypeError, ValueError):
        return None
    return (cluster, role, index) if host == socket.gethostname() else None


def by_host_name() -> Membership:
    """Derive the membership from the host name and the host files of the svc plugin."""
    files = Path("/etc/volcano").glob("*.host")
    cluster = {file.stem: [f"{host}:2222" for host in file.read_text().split()] for file in files}
    _, role, index = socket.gethostname().rsplit("-", 2)
    return cluster, role, int(index)


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    pictures = np.random.default_rng(0).random((DIGITS, PIXELS))
    random = np.random.default_rng(seed)
    labels = random.integers(DIGITS, size=count)
    noise = random.normal(scale=0.3, size=(count, PIXELS))
    return (pictures[labels] + noise).astype("float32"), labels


def work(server: tf.train.Server, index: int, workers: int) -> None:
    me = f"/job:worker/task:{index}"
    with tf.device(tf.train.replica_device_setter(worker_device=me, cluster=server.server_def.cluster)):
        steps = tf.train.get_or_create_global_step()
        pictures = tf.placeholder(tf.float32, [None, PIXELS])
        labels = tf.placeholder(tf.int64, [None])
        weights = tf.get_variable("weights", [PIXELS, DIGITS], initializer=tf.zeros_initializer())
        scores = tf.matmul(pictures, weights)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=steps)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, 1), labels), tf.float32))
        missing = tf.report_uninitialized_variables()
        begin = tf.global_variables_initializer()

    # A worker exits when it has completed; the others must not wait for it.
    others_may_leave = tf.ConfigProto(device_filters=["/job:ps", me])
    with tf.Session(server.target, config=others_may_leave) as session:
        if index == 0:
            session.run(begin)
        while session.run(missing).size:
            time.sleep(0.1)
        for step in range(STEPS):
            batch, truth = digits(64, seed=1 + step * workers + index)
            session.run(train, {pictures: batch, labels: truth})
        batch, truth = digits(1000, seed=999_999)
        found = session.run(accuracy, {pictures: batch, labels: truth})
    print(f"worker {index} of {workers}: {STEPS} steps done, the model knows {found:.0%} of the digits", flush=True)


def main() -> None:
    tf.disable_eager_execution()
    given = by_tf_config()
    source = "TF_CONFIG" if given else "the host name, because TF_CONFIG is invalid"
    cluster, role, index = given or by_host_name()
    server = tf.train.Server(cluster, job_name=role, task_index=index)
    print(f"{role} {index} listens on port 2222 (by {source})", flush=True)
    if role == "ps":
        server.join()
    else:
        work(server, index, len(cluster["worker"]))


if __name__ == "__main__":
    main()

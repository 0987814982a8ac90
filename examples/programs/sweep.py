"""Fits a line to points by gradient descent; each trial uses another step size and momentum.

`sweep.py trial` runs the trial of the index that the env plugin sets, `sweep.py report` prints the best of all.
"""

import itertools
import json
import os
import random
import sys
from pathlib import Path

RESULTS = Path(os.environ["RESULTS"])
TRIALS = list(itertools.product([0.01, 0.1, 0.5, 1.5], [0.0, 0.8]))


def trial(index: int) -> None:
    step, momentum = TRIALS[index]
    chance = random.Random(0)
    points = [(x := chance.random(), 3 * x + 2 + chance.gauss(0, 0.1)) for _ in range(500)]
    slope = intercept = slope_speed = intercept_speed = 0.0
    for _ in range(60):
        errors = [(slope * x + intercept - y, x) for x, y in points]
        slope_speed = momentum * slope_speed - step * sum(error * x for error, x in errors) / len(errors)
        intercept_speed = momentum * intercept_speed - step * sum(error for error, _ in errors) / len(errors)
        slope, intercept = slope + slope_speed, intercept + intercept_speed
    loss = sum((slope * x + intercept - y) ** 2 for x, y in points) / len(points)
    result = {"trial": index, "step": step, "momentum": momentum, "loss": loss}
    (RESULTS / f"{index}.json").write_text(json.dumps(result))
    print(f"trial {index}: step {step}, momentum {momentum}: loss {loss:.4f}")


def report() -> None:
    results = [json.loads((RESULTS / f"{index}.json").read_text()) for index in range(len(TRIALS))]
    best = min(results, key=lambda result: result["loss"])
    print(f"best of {len(results)}: trial {best['trial']}, step {best['step']}, momentum {best['momentum']}")


if sys.argv[1] == "trial":
    trial(int(os.environ["VC_TASK_INDEX"]))
else:
    report()

"""Looks for the best step size of a gradient descent: eight trials, which Ray Tune spreads over the cluster."""

import os
import random

import ray
from ray import tune

STEPS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 1.5]


def fit(config: dict) -> None:
    """Fit y = 3x + 2 to noisy points, and report the loss at the end."""
    chance = random.Random(0)
    points = [(x := chance.random(), 3 * x + 2 + chance.gauss(0, 0.1)) for _ in range(500)]
    slope = intercept = 0.0
    for _ in range(100):
        errors = [(slope * x + intercept - y, x) for x, y in points]
        slope -= config["step"] * sum(error * x for error, x in errors) / len(errors)
        intercept -= config["step"] * sum(error for error, _ in errors) / len(errors)
    tune.report({"loss": sum((slope * x + intercept - y) ** 2 for x, y in points) / len(points)})


ray.init(address="auto", log_to_driver=False)
tuner = tune.Tuner(
    fit,
    param_space={"step": tune.grid_search(STEPS)},
    tune_config=tune.TuneConfig(metric="loss", mode="min"),
    run_config=tune.RunConfig(storage_path=os.environ["RESULTS"], name="fit", verbose=0),
)
results = tuner.fit()
for result in results:
    print(f"step {result.config['step']}: loss {result.metrics['loss']:.4f}")
best = results.get_best_result()
print(f"best of {len(results)}: step {best.config['step']}, loss {best.metrics['loss']:.4f}")

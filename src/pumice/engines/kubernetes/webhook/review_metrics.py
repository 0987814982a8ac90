"""The Prometheus metrics of the webhook: number, outcome and duration of reviews, and expiry of the certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

ALLOWED: Final = "allowed"
DENIED: Final = "denied"
NO_REVIEW: Final = "no review"
TOO_MANY: Final = "too many"
NO_CERTIFICATE: Final = "no certificate"
# A review takes about a millisecond, and the API server waits at most ten seconds.
_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(slots=True)
class ReviewMetrics:
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    reviews: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    waiting: Gauge = field(init=False)
    expires: Gauge = field(init=False)

    def __post_init__(self) -> None:
        self.reviews = Counter(
            "pumice_reviews",
            "Reviews by path and outcome",
            labelnames=("path", "outcome"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "pumice_review_seconds", "Duration of reviews", buckets=_SECONDS, registry=self.registry
        )
        self.waiting = Gauge("pumice_reviews_waiting", "Reviews in progress or queued", registry=self.registry)
        self.expires = Gauge(
            "pumice_certificate_expiry_timestamp_seconds",
            "Expiry of the serving certificate",
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)

from __future__ import annotations

from pumice.engines.local.registry.blob_download import Transfer


def test_text() -> None:
    transfer = Transfer(total=3 << 20, layers=2, started=10.0, done=2 << 20, finished_layers=1, resumed=1 << 20)
    assert transfer.text(12.0) == "1 of 2 layers, 2 MiB of 3 MiB, 512 KiB/s"
    # A layer that starts again takes back what was counted.
    assert Transfer(5, 1, 10.0, done=0, resumed=3).text(10.0) == "0 of 1 layers, 0 B of 5 B, 0 B/s"

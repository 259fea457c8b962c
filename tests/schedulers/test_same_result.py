"""One function, under `ronde run`, on Ray and on Spark."""

from __future__ import annotations

import horovod
import ronde.ray
import ronde.spark
from training import train

RATE = 0.05


def test_the_same_result(ray_cluster, spark_context):
    launched = horovod.run(train, (RATE,), num_proc=2)
    assert [each["who"] for each in launched] == [(0, 2, 0, 2), (1, 2, 1, 2)]
    assert launched[0]["torch"] == launched[1]["torch"] and launched[0]["numpy"] == launched[1]["numpy"]
    [alone] = horovod.run(train, (RATE,), num_proc=1)
    for kind in ("torch", "numpy"):
        assert alone[kind] != launched[0][kind], "two ranks have learned from each other"
    assert ronde.ray.run(train, (RATE,), ranks=2) == launched
    assert ronde.spark.run(train, (RATE,), num_proc=2) == launched


def test_the_same_result_over_tcp(ray_cluster):
    """Two hosts of a rank each: other ways of the bytes, the same bits."""
    launched = horovod.run(train, (RATE,), num_proc=2)
    apart = ronde.ray.run(train, (RATE,), hosts=2)
    assert [each.pop("who") for each in apart] == [(0, 2, 0, 1), (1, 2, 0, 1)]
    assert apart == [{kind: each[kind] for kind in ("numpy", "torch")} for each in launched]

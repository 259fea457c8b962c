"""One function, under `ronde run`, on Ray and on Spark."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

import horovod
import ronde.ray
import ronde.spark
from training import train, train_numpy

RATE = 0.05


@pytest.fixture(scope="module")
def launched() -> List[Dict[str, Any]]:
    """By `ronde run`."""
    return horovod.run(train, (RATE,), num_proc=2)


def test_ranks_learn_from_each_other(launched):
    assert [each["who"] for each in launched] == [(0, 2, 0, 2), (1, 2, 1, 2)]
    assert launched[0]["torch"] == launched[1]["torch"] and launched[0]["numpy"] == launched[1]["numpy"]
    assert len(launched[0]["torch"]) == 14 and len(launched[0]["numpy"]) == 4
    assert horovod.run(train_numpy, (RATE,), num_proc=1)[0] != launched[0]["numpy"]


def test_on_ray(ray_cluster, launched):
    assert ronde.ray.run(train, (RATE,), ranks=2) == launched


def test_on_ray_over_tcp(ray_cluster, launched):
    """Two hosts of a rank each: other ways of the bytes, the same bits."""
    apart = ronde.ray.run(train, (RATE,), hosts=2)
    assert [each["who"] for each in apart] == [(0, 2, 0, 1), (1, 2, 0, 1)]
    for kind in ("torch", "numpy"):
        assert [each[kind] for each in apart] == [each[kind] for each in launched]


def test_on_spark(spark_context, launched):
    assert ronde.spark.run(train, (RATE,), num_proc=2) == launched

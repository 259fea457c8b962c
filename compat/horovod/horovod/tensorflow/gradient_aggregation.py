"""What :mod:`ronde.tensorflow.gradient_aggregation` has, the very same objects."""

from ronde.tensorflow.gradient_aggregation import LocalGradientAggregationHelper

__all__ = ["LocalGradientAggregationHelper"]

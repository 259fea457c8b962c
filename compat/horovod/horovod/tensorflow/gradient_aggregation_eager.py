"""What :mod:`ronde.tensorflow.gradient_aggregation` has for eager mode, the very same objects."""

from ronde.tensorflow.gradient_aggregation import LocalGradientAggregationHelperEager

__all__ = ["LocalGradientAggregationHelperEager"]

"""Horovod's names for functions on ranks that Ray places. Importing it loads neither Ray nor a framework."""

from ronde.ray import ElasticRayExecutor, RayExecutor

__all__ = ["ElasticRayExecutor", "RayExecutor"]

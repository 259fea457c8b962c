"""State that survives failures, without a framework."""

from ronde.elastic import ObjectState, State, notification_manager, run_fn

__all__ = ["ObjectState", "State", "notification_manager", "run_fn"]

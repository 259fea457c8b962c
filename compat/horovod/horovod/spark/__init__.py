"""``horovod.spark.run``: a function on ranks that Spark places. Importing it loads neither PySpark nor a framework.

The estimators (``horovod.spark.keras``, ``torch``, ``lightning``) are not there: importing one raises ImportError.
"""

from ronde.spark import run, run_elastic

__all__ = ["run", "run_elastic"]

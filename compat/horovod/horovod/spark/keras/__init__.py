"""Not there: importing it raises ImportError."""

from horovod._missing import refuse

refuse(__name__, "Spark's estimators")

"""Not there yet: importing it raises ImportError."""

from horovod._missing import refuse

refuse(__name__, "MXNet")

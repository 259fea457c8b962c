"""What ``ronde.keras`` and ``ronde.tensorflow`` share for Keras, of either version. Importing it loads no framework."""

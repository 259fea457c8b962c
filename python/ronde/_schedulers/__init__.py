"""What jobs have in common whose ranks a scheduler places (Ray, Spark): where each rank is and what it is told
(:mod:`ronde._schedulers.places`), and what becomes of a rank whose function fails (:mod:`ronde._schedulers.failures`).

Nothing here knows a scheduler, and nothing is sent: each scheduler's module carries what these make by its own channel.
"""

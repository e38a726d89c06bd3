"""The Python clients against real brokers: the same tests, the same results."""

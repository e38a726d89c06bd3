"""Tests mirror `src/barnabas`; `tests/peers` puts clients and brokers of other projects against it."""

"""How hypothesis makes its examples: `make test` always the same ones, `make search` new ones.

That a run of `make test` says the same as the one before is worth more there than new examples; looking
for those is a campaign of its own, with more of them.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No test fails because the machine was slow.
settings.register_profile(
    "same",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("BARNABAS_EXAMPLES", "same"))

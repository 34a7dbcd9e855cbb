from __future__ import annotations

import os

import hypothesis

# No deadline: machines that build are busy. No database: tests leave nothing in the checkout.
EXAMPLES = int(os.environ.get("METALK8S_EXAMPLES", "100"))
hypothesis.settings.register_profile("unit", deadline=None, max_examples=EXAMPLES, database=None)
hypothesis.settings.load_profile("unit")

"""``python3 -m metalk8s_bootstrap``."""

import sys

from metalk8s_bootstrap import command

sys.exit(command.here())

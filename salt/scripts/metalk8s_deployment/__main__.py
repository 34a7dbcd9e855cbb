"""``python3 -m metalk8s_deployment``."""

import sys

from metalk8s_deployment import command

sys.exit(command.here())

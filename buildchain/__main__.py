"""``python -m buildchain``: doit, with an interruption told in a sentence."""

from __future__ import annotations

import sys

from doit.doit_cmd import DoitMain

INTERRUPTED = 130  # as shells do: 128 and the number of SIGINT


def main() -> int:
    """Run doit and return its exit status."""
    try:
        return int(DoitMain().run(sys.argv[1:]) or 0)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; the same command goes on where it stopped.\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

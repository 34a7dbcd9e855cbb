"""``python -m buildchain``: doit, with an interruption told in a sentence."""

from __future__ import annotations

import signal
import sys

from doit.doit_cmd import DoitMain

# Commands that only print: whoever stops reading (`| head`) ends them, as he does other tools.
PRINTING = {"clean", "help", "info", "list", "tabcompletion"}
INTERRUPTED = 130  # as shells do: 128 and the number of SIGINT


def main() -> int:
    """Run doit and return its exit status."""
    # What messages and completion call this program.
    sys.argv[0] = DoitMain.BIN_NAME = "doit.sh"
    if sys.argv[1:2] and sys.argv[1] in PRINTING:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        return int(DoitMain().run(sys.argv[1:]) or 0)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; the same command goes on where it stopped.\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

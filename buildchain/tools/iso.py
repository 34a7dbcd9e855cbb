"""Argument list of mkisofs and what its flavours can do.

Programs: ``xorrisofs`` (or ``genisoimage``). On disk: ISO 9660 level 3 with Rock Ridge and Joliet
(spec 12.2.1). xorriso gives the same bytes for the same tree; genisoimage records the clock.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path

PERCENT = re.compile(r"(\d+(?:\.\d+)?)% done")


def is_reproducible(version: str) -> bool:
    """Tell from ``--version`` whether this mkisofs can leave the clock out."""
    return "xorriso" in version.lower()


def argv_for_iso(
    binary: str, root: Path, output: Path, *, volume_id: str, epoch: int, reproducible: bool
) -> list[str | Path]:
    """Write the image of a tree.

    :param epoch: date of the volume and, where the tool can, of every file.
    """
    moment = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    # Access and change times cannot be set on files, so the image's own are set instead.
    stamp = f"{moment:%Y%m%d%H%M%S}00"
    dates = ["--set_all_file_dates", stamp, f"--modification-date={stamp}"]
    # It looks only this often (seconds) whether the image is written; by itself every half second.
    patience = ["--", "-pacifier", "interval=0.1"]
    return [binary, "-output", output, "-R", "-J", "-joliet-long", "-l", "-V", volume_id,
            "-uid", "0", "-gid", "0", "-iso-level", "3", "-input-charset", "utf-8",
            "-output-charset", "utf-8", *(dates if reproducible else []), root,
            *(patience if reproducible else [])]  # fmt: skip


def parse_progress(line: str) -> float | None:
    """Return the percentage a line of output tells, if any."""
    match = PERCENT.search(line)
    return float(match[1]) if match else None

"""What every task creator needs: settings, paths and pins, read once."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from buildchain.core import receipt
from buildchain.core.layout import Layout
from buildchain.project import catalog, config, source
from buildchain.project.catalog import Catalog
from buildchain.project.config import STRICT, Config
from buildchain.project.model import Content, Tool

# Variable with the folder doit.sh was called in: it changes into the checkout.
CALLED_FROM = "CALLED_FROM"


@dataclass(frozen=True)
class Context:
    """Settings, paths, pins and tools of this run.

    :param arguments: the command line, to know whether ``setup`` was asked for.
    :param tracked: files of the checkout that git knows; ``None`` outside of one.
    """

    config: Config
    layout: Layout
    catalog: Catalog
    tools: tuple[Tool, ...]
    arguments: tuple[str, ...] = ()
    tracked: frozenset[Path] | None = None

    @property
    def content(self) -> Content:
        return Content(self.catalog.suite, self.catalog.architecture, self.catalog.content_epoch)

    @property
    def is_release(self) -> bool:
        """Whether this is a release: nothing that was built before gets into it."""
        return bool(self.config.signing_key)

    @property
    def lock_policy(self) -> str:
        """``LOCK_POLICY``; whatever that says, a release is made of what is locked."""
        return STRICT if self.is_release else self.config.lock_policy

    def files(self, *folders: Path) -> tuple[Path, ...]:
        """Return the product's files in some folders of the checkout.

        What git does not track is nobody's: an editor's, or put there. Without git it is all.
        """
        found = receipt.sources(folder for folder in folders if folder.is_dir())
        return tuple(file for file in found if self.tracked is None or file in self.tracked)

    def tool(self, name: str) -> Tool:
        """Return a tool of the table by name."""
        return next(tool for tool in self.tools if tool.name == name)

    def is_asked_for(self, *names: str) -> bool:
        """Tell whether one of these tasks (or a subtask) is on the command line."""
        return any(word.partition(":")[0] in names for word in self.arguments)


def load(root: Path, environ: dict[str, str], arguments: tuple[str, ...] = ()) -> Context:
    """Read settings and pins of a checkout.

    :raises BuildError: they have mistakes.
    """
    settings = config.load(root, environ)
    layout = Layout(
        root=root,
        build=settings.build_root,
        cache=settings.cache_root,
        project=settings.project_name.lower(),
        public_keys=settings.signing_public_key,
    )
    pins = catalog.load(root, settings.profile)
    tracked = source.tracked(settings.binary("git"), root)
    return Context(settings, layout, pins, catalog.tools(root), arguments, tracked)


@functools.cache
def current() -> Context:
    """Return the context of this process."""
    root = Path(__file__).resolve().parents[2]
    return load(root, dict(os.environ), tuple(sys.argv[1:]))

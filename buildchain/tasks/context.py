"""What every task creator needs: settings, paths and pins, read once."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from buildchain import catalog, config
from buildchain.actions import lock
from buildchain.catalog import Catalog
from buildchain.config import Config
from buildchain.layout import Layout
from buildchain.model import Content, Tool

# Variable with the folder doit.sh was called in: it changes into the checkout.
CALLED_FROM = "CALLED_FROM"


@dataclass(frozen=True)
class Context:
    """Settings, paths, pins and tools of this run.

    :param arguments: the command line, to know whether ``setup`` was asked for.
    """

    config: Config
    layout: Layout
    catalog: Catalog
    tools: tuple[Tool, ...]
    arguments: tuple[str, ...] = ()

    @property
    def content(self) -> Content:
        return Content(self.catalog.suite, self.catalog.architecture, self.catalog.content_epoch)

    @property
    def lock_policy(self) -> str:
        """``LOCK_POLICY``; whatever that says, a release is made of what is locked."""
        return lock.STRICT if self.config.signing_key else self.config.lock_policy

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
    )
    pins = catalog.load(root, settings.profile)
    return Context(settings, layout, pins, catalog.tools(root), arguments)


@functools.cache
def current() -> Context:
    """Return the context of this process."""
    root = Path(__file__).resolve().parents[2]
    return load(root, dict(os.environ), tuple(sys.argv[1:]))

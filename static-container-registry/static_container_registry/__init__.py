"""A tree of container images, served as a read-only registry by a plain nginx.

``read_tree`` turns a directory into records, ``render`` turns records into nginx
configuration, ``check`` proves the directory complete. Importing this package reads
no file and starts no process.
"""

from .archive import served
from .audit import check
from .configuration import Options, Parts, render
from .errors import OptionError, Problem, RegistryError, ToolError, TreeError
from .repository import Blob, Document, Referrer, Repository, Tag
from .tree import read_tree

__all__ = [
    "Blob",
    "Document",
    "OptionError",
    "Options",
    "Parts",
    "Problem",
    "Referrer",
    "RegistryError",
    "Repository",
    "Tag",
    "ToolError",
    "TreeError",
    "check",
    "read_tree",
    "render",
    "served",
]

"""The command ``static-container-registry``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .audit import check
from .configuration import Options, Parts, render
from .errors import OptionError, RegistryError, TreeError
from .server import running
from .tree import read_tree


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command; 0 for success, 1 for what the user can put right, 2 for usage."""
    options = _parser().parse_args(arguments)
    command = {"generate": _generate, "check": _check, "serve": _serve}[options.command]
    try:
        command(options)
    except RegistryError as error:
        print(f"{type(error).__name__}: {error.reason}", file=sys.stderr)
        print(f"Solution: {error.solution}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="static-container-registry", description="Serve a tree of images with plain nginx."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    tree = "tree of images: ROOT/<name>/<version>/manifest.json, or OCI layouts"
    generate = commands.add_parser("generate", help="print nginx configuration for a server block")
    generate.add_argument("root", metavar="ROOT", type=Path, nargs="?", help=tree)
    generate.add_argument("--name-prefix", default="", metavar="P", help="put before every name")
    generate.add_argument("--server-root", metavar="R", help="where nginx sees ROOT (default ROOT)")
    parts = generate.add_mutually_exclusive_group()
    for flag, part in (("omit", Parts.ARCHIVE), ("only", Parts.CONSTANTS)):
        text = f"{flag} the endpoints shared by all archives"
        parts.add_argument(
            f"--{flag}-constants", dest="parts", action="store_const", const=part, help=text
        )
    generate.set_defaults(parts=Parts.ALL)
    generate.add_argument("--output", metavar="FILE", type=Path, help="instead of printing")
    prove = commands.add_parser("check", help="prove a tree complete and undamaged")
    prove.add_argument("root", metavar="ROOT", type=Path, help=tree)
    serve = commands.add_parser("serve", help="serve a tree on 127.0.0.1 until Ctrl-C")
    serve.add_argument("root", metavar="ROOT", type=Path, help=tree)
    serve.add_argument("--port", type=int, default=5000, metavar="N", help="default 5000")
    serve.add_argument("--nginx", default="nginx", metavar="BIN", help="program to run")
    return parser


def _generate(options: argparse.Namespace) -> None:
    text = _configuration(options)
    if options.output is None:
        sys.stdout.write(text)
    else:
        _write_whole(options.output, text)


def _configuration(options: argparse.Namespace) -> str:
    if options.parts is Parts.CONSTANTS:
        return render((), Options(name_prefix=options.name_prefix, parts=options.parts))
    if options.root is None:
        raise OptionError("ROOT is missing", "name the tree, or pass --only-constants")
    root = str(options.root.resolve()) if options.server_root is None else options.server_root
    chosen = Options(root, options.name_prefix, options.parts)
    return render(read_tree(options.root), chosen)


def _write_whole(path: Path, text: str) -> None:
    """Write beside and rename, so that nobody finds half a configuration."""
    try:
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(beside).chmod(0o644)
        Path(beside).replace(path)
    except OSError as error:
        reason = f"{path} cannot be written: {error.strerror}"
        raise OptionError(reason, "choose another --output") from error


def _check(options: argparse.Namespace) -> None:
    problems = check(options.root)
    if problems:
        raise TreeError(problems)


def _serve(options: argparse.Namespace) -> None:
    text = render(read_tree(options.root), Options(str(options.root.resolve())))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with running(text, options.port, options.nginx) as process:
            print(f"http://127.0.0.1:{options.port}/v2/ serves {options.root}; stop with Ctrl-C")
            sys.stdout.flush()
            process.wait()
    except KeyboardInterrupt:
        print("stopped")


if __name__ == "__main__":
    sys.exit(main())

"""The proof that nothing is missing on a medium, and that nothing is left over.

Everything that is there is wanted by something, and everything wanted is there: images by states
and templates, layers by manifests, packages by indexes and states, states by states, files by
scripts, and the rest by people and machines that begin with it (:data:`ENTRIES`). Versions that are
said in several places agree. Nothing is installed or run, and no large file is read. That the sets
of packages are closed is for solvers: :mod:`buildchain.repositories.closures`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from buildchain.core import listing
from buildchain.core.errors import ContentError
from buildchain.medium.contents import Contents
from buildchain.proof import (
    document_check,
    image_check,
    medium_check,
    package_check,
    script_check,
    states,
)
from buildchain.proof.medium_check import Check, Versions, some
from buildchain.proof.states import PILLAR, STATES, VERSIONS, Reader

OPERATOR, VERIFIER = "the operator", "whoever verifies the medium"
# What nothing on the medium has to name: who begins with it.
ENTRIES: Mapping[str, str] = {
    "CHANGELOG.md": OPERATOR,
    "LICENSE": OPERATOR,
    "MANIFEST": VERIFIER,
    "MANIFEST.sig": VERIFIER,
    "SHA256SUM": VERIFIER,
    "SHA256SUM.sig": VERIFIER,
    "apply-update.sh": OPERATOR,
    "bootstrap.example.yaml": OPERATOR,
    "bootstrap.sh": OPERATOR,
    "deploy-node.sh": OPERATOR,
    "doctor.sh": OPERATOR,
    "remove-node.sh": OPERATOR,
    **dict.fromkeys(document_check.FIRST, OPERATOR),
    **{f"{STATES}{name.replace('.', '/')}.sls": OPERATOR for name in states.ORCHESTRATIONS},
    "keys/metalk8s.asc": OPERATOR,
    "keys/metalk8s.gpg": VERIFIER,
    "lock/debian.lock": OPERATOR,
    "lock/replaced.txt": OPERATOR,
    "pillar/top.sls": "Salt",
    "product.txt": OPERATOR,
    "registry-config.inc": OPERATOR,
    "salt/top.sls": "Salt",
    "sbom/cyclonedx.json": OPERATOR,
    "sbom/spdx.json": OPERATOR,
    "verify.sh": VERIFIER,
    VERSIONS: "the build",
}
# Further keys that the medium is signed by, and what introduces a new one.
KEY = re.compile(r"keys/metalk8s(-[0-9A-F]{16}\.(gpg|asc)|\.gpg\.sig)")
SHOWN = 40  # problems


def prove(
    contents: Contents, declared: Mapping[str, str], given: Mapping[str, Collection[str]]
) -> None:
    """Check that a medium is complete.

    :param declared: images that nothing has to refer to, as ``name:version``, with the reason.
    :param given: packages that machines of a family have without us.
    :raises ContentError: naming everything that is missing, left over or contradicts something.
    """
    problems = find(contents, declared, given)
    if problems:
        more = f"\n… and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise ContentError(
            f"{contents.name} is not complete: {len(problems)} problems",
            details="\n".join(problems[:SHOWN]) + more,
            solution="Add what is missing, remove what is left over, or declare it: images in the "
            "profile's images.toml (unused), other files in buildchain/proof/completeness.py.",
        )


def find(
    contents: Contents, declared: Mapping[str, str], given: Mapping[str, Collection[str]]
) -> list[str]:
    """Return every problem of a medium as a sentence, sorted."""
    check = Check(contents, declared, given)
    for path, who in ENTRIES.items():
        check.want(path, who)
    for path in check.paths:
        if KEY.fullmatch(path):
            check.want(path, VERIFIER)
    versions = medium_check.versions(check)
    if versions.has_foreign_rpms:
        check.want("lock/redhat.lock", OPERATOR)
    trees = image_check.trees_of(check)
    repositories = package_check.repositories_of(check)
    _follow_states(check, versions, script_check.follow(check, ENTRIES))
    document_check.follow(check)
    image_check.compare_served(check, versions, trees)
    image_check.compare_references(check, versions, trees)
    package_check.compare(check, versions, repositories)
    _compare_functions(check)
    _compare_versions(check, versions)
    _compare_listing(check)
    _compare_everything(check)
    return sorted(check.problems | check.wanted.problems)


def _follow_states(check: Check, versions: Versions, called: Mapping[str, Collection[str]]) -> None:
    own = [path for path in sorted(check.paths) if path.startswith((STATES, PILLAR))]
    called = {**called, **states.named(own, check.text)}
    called |= dict.fromkeys(states.ORCHESTRATIONS, (OPERATOR,))
    for machine in states.machines(check.text):
        files = states.Files(check.text, check.is_folder)
        Reader(files, machine, versions.metalk8s, versions.mount, check.wanted).follow(called)
    text = [path for path in own if path.endswith((".sls", ".jinja", ".j2", ".py"))]
    states.read_modules(text, check.text, check.wanted)
    states.read_names(check.paths, check.text, check.wanted)


def _compare_functions(check: Check) -> None:
    for (path, name), origins in check.wanted.functions.items():
        tree = check.python(path)
        if tree is not None and name not in states.defined(tree):
            check.problem(f"{some(origins)} calls {name}, which {path} does not define")


def _compare_versions(check: Check, versions: Versions) -> None:
    """Compare versions that are said in several places."""
    lines = (check.text("product.txt") or "").splitlines()
    product = dict(line.split("=", 1) for line in lines if "=" in line).get("VERSION")
    if product is not None and product != versions.metalk8s:
        check.problem(f"product.txt is of version {product}, {VERSIONS} of {versions.metalk8s}")
    if not versions.kubernetes:
        return
    said = {f"image {n}": v for n, v in versions.images.items() if n.startswith("kube-")}
    for family, packages in versions.packages.items():
        for name in ("kubeadm", "kubectl", "kubelet"):
            if name in packages:
                said[f"{family} package {name}"] = packages[name].rpartition("-")[0]
    for what, version in said.items():
        if version.removeprefix("v") != versions.kubernetes.removeprefix("v"):
            check.problem(
                f"{what} has version {version}, {VERSIONS} says Kubernetes {versions.kubernetes}"
            )


def _compare_listing(check: Check) -> None:
    """Compare what is there with what ``MANIFEST`` says is there."""
    text = check.text(listing.NAME)
    if text is None:
        return
    named = listing.parse(text, check.contents.name).files.keys()
    for path in named - check.paths:
        check.want(path, listing.NAME)
    for path in check.paths - named - {listing.NAME, f"{listing.NAME}.sig"}:
        check.problem(f"{path} is on the medium, {listing.NAME} does not list it")


def _compare_everything(check: Check) -> None:
    """Compare what is there with what is wanted."""
    for path in check.wanted.files.keys() - check.paths:
        if not check.is_folder(path):
            who = some(check.wanted.files[path])
            check.problem(f"{path} is not on the medium, {who} wants it")
    for path in check.paths - check.wanted.files.keys():
        check.problem(f"{path} is on the medium, nothing refers to it")

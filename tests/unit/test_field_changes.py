"""Each field of each pin and option, changed: what runs again is what comes out otherwise.

A small product, all of whose fields say something: every field is changed in turn, and of every
step are compared what doit would ask (what the step is told, and its inputs) and what the action
leaves. The table of both is made here; what is listed by hand are fields that reach no step
(``MEANS``) and those that decide a verdict or a way and no byte (``VERDICTS``).

Actions are run where they need neither engine nor solver, with real files: :data:`RUN`. Of the
others it is known that they are functions of their record (a step refuses what brings more along),
so that it decides; that each field of such a record is of use is not shown here.
"""

import collections
import dataclasses
import hashlib
import importlib
import inspect
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from buildchain.core import receipt
from buildchain.core.errors import BuildError
from buildchain.core.receipt import Made, write_whole
from buildchain.core.step import Step
from buildchain.debian.archive import list_text
from buildchain.packages import bundles
from buildchain.project import context
from buildchain.project.model import DebianFile, PulledImage
from buildchain.salt_tree import deployment
from buildchain.store.blobs import Store
from tests.conftest import ROOT
from tests.unit.images.test_registry import image as lay_out_image

# Steps that are run, by what comes before the name of an item.
RUN = (
    *("_build_packages:pkg_mkdir", "_build_packages:pkg_rpmspec", "_build_packages:pkg_get_source"),
    *("_image_pull", "_iso_bill", "_iso_product", "_iso_provenance", "_lock_record"),
    *("_registry_config", "_salt_tree_deploy"),
)
SLOW = ("_iso_provenance",)  # gpg: run only where it would run again
# Fields that no step is told: what a build is made with, and what other tasks are told.
MEANS = {
    "config.build_root", "config.cache_root",
    "config.registry_mirrors", "config.plain_http_registries", "config.registry_auth_file",
    "config.vagrant_provider", "config.vagrant_up_args", "config.vagrant_snapshot_name",
    *(f"config.binaries.{name}" for name in
      ("docker", "git", "gofmt", "operator-sdk", "skopeo", "vagrant")),
}  # fmt: skip
# Steps that run again for a field, and leave the same.
VERDICTS = {
    ("_build_packages:pkg_mkdir", "packages.name"): "folders are no output",
    ("_build_packages:pkg_get_source", "packages.sources.package"): "where the archive has it",
    ("_build_packages:pkg_get_source", "packages.sources.version"): "where the archive has it",
}
OTHER = hashlib.sha256(b"another file").hexdigest()


def rooms():
    """Return the modules that know steps."""
    names = sorted(path.parent.name for path in ROOT.glob("buildchain/*/steps.py"))
    return [importlib.import_module(f"buildchain.{name}.steps") for name in names]


def step_of(task):
    """Return the step that a task was made of, if it was."""
    for action in task.get("actions") or ():
        first = action[0] if isinstance(action, tuple) else action
        step = getattr(getattr(first, "__wrapped__", None), "__self__", None)
        if isinstance(step, Step):
            return step
    return None


def kind_of(step):
    """Return what a step has in common with those of other items."""
    area, _, item = step.name.partition(":")
    stage = item.partition(":")[2]
    return f"{area}:{stage}" if stage else area


@dataclass(frozen=True)
class World:
    """A small product in a checkout of its own, as if it had been built."""

    context: context.Context
    monkeypatch: pytest.MonkeyPatch

    def steps(self, changed):
        """Return the steps of the graph, in its order."""
        found = []
        for room in rooms():
            self.monkeypatch.setattr(room, "current", lambda: changed, raising=False)
            for name, make in vars(room).items():
                if name.startswith("task__") and make.__module__ == room.__name__:
                    made = make()
                    tasks = made if inspect.isgenerator(made) else [made]
                    found += filter(None, map(step_of, tasks))
        return found


# -- a small product ------------------------------------------------------------------------------
def small(checkout, catalog):
    """Return a catalog of one thing of each kind, all of whose fields say something."""
    kubernetes, salt, runc = (catalog.package(n) for n in ("kubernetes", "salt", "runc"))
    etcd, pause = (next(i for i in catalog.images if i.name == n) for n in ("etcd", "pause"))
    built = dataclasses.replace(
        etcd, packages=("metalk8s-salt",), binaries=("runc/runc",), programs=("library",)
    )
    pulled = PulledImage(
        "org/app", "registry.invalid/org/app:1", f"sha256:{OTHER}", "1",
        aliases=("org/app:latest",), referrers=True,
    )  # fmt: skip
    keys = tuple(
        dataclasses.replace(r, key=checkout / "keys" / f"{r.name}.asc")
        for r in catalog.redhat_repositories
    )
    return dataclasses.replace(
        catalog,
        packages=(runc, salt, kubernetes),
        images=(built, pause),
        pulled_images=(pulled,),
        redhat_repositories=keys[:1],
        redhat_releases=("9",),
    )


def in_place(found):
    """Return a context whose paths follow its settings, as ``context.load`` makes it."""
    settings = found.config
    layout = dataclasses.replace(
        found.layout,
        build=settings.build_root,
        cache=settings.cache_root,
        project=settings.project_name.lower(),
        public_keys=settings.signing_public_key,
    )
    return dataclasses.replace(found, layout=layout)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout with what the actions read of one."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("buildchain/pins", "salt/pillar", "VERSION", "packages/salt/wheels.sha256"):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, symlinks=True)
        else:
            shutil.copy2(ROOT / name, target)
    write_whole(folder / "keys" / "BaseOS.asc", "a key")
    for name in ("CHANGELOG.md", "LICENSE", "packages/builder/Dockerfile", "other"):
        write_whole(folder / name, name)
    return folder


@pytest.fixture(scope="module")
def world(checkout, tmp_path_factory, development_key):
    places = tmp_path_factory.mktemp("places")
    environment = {
        "PROFILE": "upstream", "SOURCE_DATE_EPOCH": "1700000000",
        "BUILD_ROOT": str(places / "build"), "CACHE_ROOT": str(places / "cache"),
    }  # fmt: skip
    found = context.load(ROOT, environment)
    settings = dataclasses.replace(found.config, root=checkout)
    layout = dataclasses.replace(found.layout, root=checkout)
    found = dataclasses.replace(
        found, config=settings, layout=layout, catalog=small(checkout, found.catalog), tracked=None
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = World(in_place(found), monkeypatch)
        layout.development_key.parent.mkdir(parents=True)
        shutil.copy2(development_key, layout.development_key)
        furnish(made)
        yield made


def furnish(world):
    """Leave what the steps that are not run would have left, and what would have been fetched."""
    layout, pins = world.context.layout, world.context.catalog
    store = Store(layout.store)
    manifest = lay_out_image(layout, "fetched", "1")
    digests = {path.name: store.keep(path.read_bytes()) for path in manifest.iterdir()}
    shutil.rmtree(manifest.parent)
    store.keep(b"another file")
    for package in pins.packages:
        write_spec(layout, package)
        fetch(layout, package)
    special = {
        "_iso_key": {"development": True},
        "_images_fetch": {
            image.name: {"manifests": [f"sha256:{digests['manifest.json']}"], "tags": {}}
            for image in pins.pulled_images
        },
    }
    write_whole(layout.iso, "iso")
    for step in world.steps(world.context):
        name = step.name.partition(":")[2]
        paths = ()
        if step.name.startswith(("_debian_closure:", "_redhat_closure:")):
            write_whole(layout.closure(name), list_text(files_of(name)))
        elif step.name.startswith("_image_build:"):
            version = next(image.version for image in pins.images if image.name == name)
            paths = (lay_out_image(layout, name, version),)
        elif step.name == "_iso_build":
            paths = (layout.iso,)
        elif step.name.startswith("_package_repository:"):
            paths = tuple(packages_of(layout, pins, name))
        made = Made(paths, special.get(step.name, {}))
        receipt.write(layout.receipt(step.name), layout.build, made)
        if name.endswith("pkg_rpmspec"):
            step.make()  # what is compiled follows from it


def fetch(layout, package):
    """Put stand-ins of what is pinned where the store would have verified ones."""
    store = Store(layout.store)
    for source in package.sources:
        keep_as(store, source.sha256, source.file)
    if package.wheels:
        listed = bundles.read_wheels(layout.package_sources(package.name) / package.wheels)
        for file, digest in listed.items():
            keep_as(store, digest, file)


def files_of(name):
    """Return a package for each set, none for bundles: those would be unpacked."""
    if name.startswith(("source-", "node-el")):
        return ()
    return (DebianFile(f"of-{name}", "1", "amd64", f"{name}.deb", 1, sha(name)),)


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def keep_as(store, digest, text):
    path = store.path(digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def packages_of(layout, pins, family):
    """Leave the packages of ours that are in a repository, and one that becomes ours."""
    for package in pins.packages:
        version = f"{package.version}-{package.release}"
        package = dataclasses.replace(
            package,
            rpms=(*package.rpms, f"{package.rpms[-1]}9"),
            debs=(*package.debs, f"{package.debs[-1]}9"),
        )
        folder, names = {
            "redhat": (
                layout.rpm_repository(pins.redhat_releases[0]),
                [f"{name}-{version}.x86_64.rpm" for name in package.rpms],
            ),
            "debian": (layout.deb_repository, [f"{n}_{version}_amd64.deb" for n in package.debs]),
        }[family]
        for name in names:
            write_whole(folder / name, name)
            yield folder / name


def write_spec(layout, package):
    """Write a spec that is as its pin says."""
    lines = [f"Name: {package.name}", f"Version: {package.version}", f"Release: {package.release}"]
    lines += ["Summary: small", "License: MIT"]
    sources = (*package.archives, "prepare.sh")
    lines += [f"Source{number}: {name}" for number, name in enumerate(sources)]
    lines += ["%description", "small"]
    for name in package.rpms:
        lines += [f"%package -n {name}", "Summary: small", f"%description -n {name}", "small"]
    folder = layout.package_sources(package.name)
    write_whole(folder / f"{package.name}.spec", "\n".join(lines) + "\n")
    write_whole(folder / "prepare.sh", "prepare")
    write_whole(folder / "debian" / "control", "Architecture: any\n")


# -- fields ---------------------------------------------------------------------------------------
def other(value, checkout):
    """Return another value of the same type, which a pin or an option may have."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        if value.startswith("sha256:"):
            return f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"
        return OTHER if len(value) == len(OTHER) else f"{value}9"
    if isinstance(value, tuple):
        return (*value[:-1], f"{value[-1]}9") if value else ("new",)
    if isinstance(value, Path) or value is None:
        return checkout / "other"
    first = next(iter(value))
    return {**value, first: other(value[first], checkout)}


def changes(value, checkout):
    """Yield every change of one field, below a record: its name, and the record with it."""
    for field in dataclasses.fields(value):
        name, old = field.name, getattr(value, field.name)
        below = [old] if dataclasses.is_dataclass(old) else old
        if isinstance(below, list | tuple) and below and dataclasses.is_dataclass(below[0]):
            seen = set()
            # The first item whose field says something.
            for full in (True, False):
                for index, item in enumerate(below):
                    for path, changed in changes(item, checkout):
                        if path in seen or bool(reach(item, path)) is not full:
                            continue
                        seen.add(path)
                        items = (*below[:index], changed, *below[index + 1 :])
                        new = changed if dataclasses.is_dataclass(old) else items
                        yield f"{name}.{path}", dataclasses.replace(value, **{name: new})
        elif old == () and "tuple[str" not in str(field.type):
            continue  # of records, which another item has
        elif name == "binaries" and isinstance(old, dict):
            for key in old:
                new = {**old, key: f"{old[key]}-9"}
                yield f"{name}.{key}", dataclasses.replace(value, binaries=new)
        else:
            yield name, dataclasses.replace(value, **{name: other(old, checkout)})


def reach(item, path):
    for name in path.split("."):
        item = item[0] if isinstance(item, tuple) else item
        item = getattr(item, name)
    return item


@pytest.fixture(scope="module")
def fields(world):
    """Return every field of every option and pin, with the context in which it is another."""
    found, here = {}, world.context
    for name, changed in changes(here.config, here.layout.root):
        if name in ("build_root", "cache_root"):  # moved, with all that is in it
            old = getattr(here.config, name)
            shutil.copytree(old, old.with_name(f"{old.name}-9"))
            changed = dataclasses.replace(here.config, **{name: old.with_name(f"{old.name}-9")})
        if name != "root":
            found[f"config.{name}"] = in_place(dataclasses.replace(here, config=changed))
    for name, changed in changes(here.catalog, here.layout.root):
        found[name] = dataclasses.replace(here, catalog=changed)
    return found


# -- what comes out -------------------------------------------------------------------------------
def asked(step):
    """Return what doit is told of a step, from which it decides whether that runs again.

    The name is part of it: a step of another name has not run yet. Folders are no part of it: that
    a build is somewhere else is no matter of what it makes.
    """
    layout = step.layout
    places = {f"{layout.build}/": "build/", f"{layout.root}/": "checkout/"}

    def name(path):
        text = str(path)
        inside = (n + text.removeprefix(p) for p, n in places.items() if text.startswith(p))
        return next(inside, text)

    try:
        told = step.told()
    except OSError as error:
        told = f"not known before other steps have run: {error}"
    return step.name, told, sorted(map(name, step.inputs()))


def left(step):
    """Run the action of a step; return what it left, or how it failed."""
    build = step.layout.build
    try:
        made = step.action(step.record, step.means)
    except (BuildError, OSError, KeyError, AssertionError) as error:
        return type(error).__name__, str(error)
    return (
        sorted(
            (str(p.relative_to(build)), p.stat().st_mode, receipt.sha256(p))
            for p in receipt.files(made.paths)
        ),
        json.dumps(made.facts, sort_keys=True),
    )


def is_run(step):
    return kind_of(step) in RUN


@dataclass(frozen=True)
class Compared:
    """What became of one step when one field was changed."""

    step: str
    field: str
    runs_again: bool
    is_other: bool


def compare(step, changed, field, before):
    """Compare a step with itself when a field is another.

    :param before: what doit was told, and what the step left.
    """
    runs_again = asked(changed) != before[0]
    is_other = left(changed) != before[1]
    return Compared(kind_of(step), field, runs_again, is_other)


def paired(steps, after):
    """Pair the steps of two graphs: the first of a kind with the first, and so on.

    Return the kinds of what has no partner, too.
    """
    found = {}
    for which, graph in enumerate((steps, after)):
        counts = collections.Counter()
        for step in graph:
            key = kind_of(step), counts[kind_of(step)]
            counts[kind_of(step)] += 1
            found.setdefault(key, [None, None])[which] = step
    pairs = [pair for pair in found.values() if None not in pair]
    return pairs, [kind for (kind, _), pair in found.items() if None in pair]


@pytest.fixture(scope="module")
def table(world, fields):
    """Return the comparison of each step that is run with each field; and what reaches which."""
    steps = world.steps(world.context)
    before = {step.name: (asked(step), left(step) if is_run(step) else None) for step in steps}
    assert {kind_of(step) for step in steps if is_run(step)} == set(RUN)
    failed = {name: was for name, (_, was) in before.items() if was and isinstance(was[0], str)}
    assert failed == {}, "they have what they need"
    rows, reached = [], {}
    for field, here in fields.items():
        pairs, is_more = paired(steps, world.steps(here))
        again = [kind_of(step) for step, new in pairs if asked(new) != before[step.name][0]]
        reached[field] = again + is_more
        for step, changed in pairs:
            if is_run(step) and (kind_of(step) not in SLOW or kind_of(step) in reached[field]):
                rows.append(compare(step, changed, field, before[step.name]))
    for step in filter(is_run, steps):
        assert left(step) == before[step.name][1], "equal records leave the same"
    return rows, reached


def test_what_comes_out_otherwise_runs_again(table):
    rows, _ = table
    assert [row for row in rows if row.is_other and not row.runs_again] == []


def test_nothing_else_runs_again(table):
    rows, _ = table
    others = {(row.step, row.field) for row in rows if row.is_other}
    idle = {(row.step, row.field) for row in rows if row.runs_again} - others
    assert idle == set(VERDICTS)


def test_each_field_is_of_use_to_a_step(table):
    _, reached = table
    assert {field for field, steps in reached.items() if not steps} == MEANS


# -- what was wrong once --------------------------------------------------------------------------
PINS = []  # what the action below gets around its record


@dataclass(frozen=True)
class ByHand:
    """What the Salt tree's step was told at commit 95f88bc, its action was handed all pins."""

    files: tuple[Path, ...]
    version: str
    packages: tuple[tuple[object, ...], ...]
    repositories: tuple[str, ...]
    images: tuple[tuple[str, str], ...]


def deploy_by_hand(told, means):
    return deployment.deploy(deployment.tree(PINS[-1], told.files), means)


def by_hand(world, here):
    """Return the step of the Salt tree as it was."""
    pins = here.catalog
    [step] = [step for step in world.steps(here) if step.name == "_salt_tree_deploy"]
    told = ByHand(
        step.record.files,
        pins.version.full,
        tuple((p.name, p.version, p.release, p.rpms, p.debs) for p in pins.packages),
        tuple(repository.name for repository in pins.redhat_repositories),
        tuple((image.name, image.version) for image in pins.images),
    )
    PINS.append(pins)
    return dataclasses.replace(step, action=deploy_by_hand, record=told)


def test_a_list_by_hand_is_found(world, fields):
    """``versions.json`` went stale: its list lacked releases of EL and images from registries."""
    step = by_hand(world, world.context)
    before = asked(step), left(step)
    rows = [compare(step, by_hand(world, here), field, before) for field, here in fields.items()]
    assert {row.field for row in rows if row.is_other and not row.runs_again} == {
        *("redhat_releases", "pulled_images.name", "pulled_images.version"),
    }

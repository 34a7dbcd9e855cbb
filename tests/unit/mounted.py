"""A small medium in memory that has one of each kind of thing, and is complete."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable

from static_container_registry import Document, Options, Repository, render

from buildchain.core import listing
from buildchain.core.listing import Entry

VERSION = "2.9.0"
MOUNT = f"/srv/scality/metalk8s-{VERSION}"
REPO = "http://linux.duke.edu/metadata"

STATES = {
    "top.sls": """
{{ saltenv }}:
{%- for role in ("node", "web") %}
  "{{ role }}":
    - match: compound
    - metalk8s.roles.{{ role }}
{%- endfor %}
""",
    "metalk8s/map.jinja": """
{%- import_json "metalk8s/versions.json" as versions %}
{%- import_yaml "metalk8s/parameters/defaults.yaml" as defaults %}
{%- set family = grains.os_family | lower %}
{%- import_yaml "metalk8s/parameters/os_family/" ~ family ~ ".yaml" as differences %}
{%- set site = salt["pillar.get"]("metalk8s:site", {}) %}
{%- set metalk8s = salt["slsutil.merge_all"]([defaults, differences, site], merge_lists=False) %}
{%- if metalk8s.web.image not in versions.images %}
  {{- raise("There is no image " ~ metalk8s.web.image) }}
{%- endif %}
{%- set image = metalk8s.web.image ~ ":" ~ versions.images[metalk8s.web.image].version %}
{%- set here = "metalk8s-" ~ versions.metalk8s.version %}
{%- set root = "/srv/scality/" ~ here %}
{%- do metalk8s.web.update({"reference": "registry.invalid/" ~ here ~ "/" ~ image,
                            "tree": root ~ "/images/" ~ image | replace(":", "/")}) %}
{%- do metalk8s.update({"root": root, "family": family,
                        "address": salt["metalk8s_network.address"]("10.0.0.0/8")}) %}
{%- set pinned = [] %}
{%- for name in metalk8s.packages %}
  {%- set build = versions.packages[family][name] %}
  {%- do pinned.append({name: [build.version, build.release] | join("-")
                        if build.release is defined else build.version}) %}
{%- endfor %}
{%- do metalk8s.update({"packages": pinned}) %}
{{ metalk8s | json }}
""",
    "metalk8s/macros.jinja": "{%- macro folder(path) %}\nMake {{ path }}:\n  file.directory\n"
    "{%- endmacro %}\n",
    "metalk8s/parameters/defaults.yaml": "web: {image: web}\npackages: [agent]\n",
    "metalk8s/parameters/os_family/debian.yaml": 'supported_releases: ["12"]\n',
    "metalk8s/parameters/os_family/redhat.yaml": 'supported_releases: ["9"]\n',
    "metalk8s/roles/node/init.sls": "include:\n  - metalk8s.agent\n",
    "metalk8s/roles/node/absent.sls": "include:\n  - metalk8s.agent.absent\n",
    "metalk8s/roles/node/certified.sls": "include:\n  - metalk8s.agent.certified\n",
    "metalk8s/roles/web.sls": "include:\n  - metalk8s.web\n",
    "metalk8s/agent/init.sls": "include:\n  - metalk8s.agent.installed\n",
    "metalk8s/agent/absent.sls": "Remove the agent:\n  pkg.purged\n",
    "metalk8s/agent/certified.sls": "Renew the agent:\n  file.managed\n",
    "metalk8s/agent/renewed.sls": "include:\n  - metalk8s.agent.certified\n",
    "metalk8s/agent/installed.sls": """
{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- from "metalk8s/macros.jinja" import folder %}
{{ folder("/etc/agent") }}
Install the agent:
  pkg.installed:
    - pkgs: {{ metalk8s.packages | json }}
Configure the agent:
  file.managed:
    - source: salt://metalk8s/agent/files/{{ metalk8s.family }}/agent.conf.j2
    - context:
        metalk8s: {{ metalk8s | json }}
""",
    "metalk8s/agent/files/debian/agent.conf.j2": "key = {{ metalk8s.root }}/keys/metalk8s.asc\n",
    "metalk8s/agent/files/redhat/agent.conf.j2": "address = {{ metalk8s.address }}\n"
    "renew = salt-call state.apply metalk8s.agent.renewed\n",
    "metalk8s/web/init.sls": "include:\n  - metalk8s.web.running\n",
    "metalk8s/web/absent.sls": "Stop the web:\n  file.absent\n",
    "metalk8s/web/running.sls": """
{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
Run the web:
  metalk8s_pod.managed:
    - source: salt://metalk8s/web/files/pod.yaml.j2
    - context:
        metalk8s: {{ metalk8s | json }}
Load the image:
  metalk8s_image.loaded:
    - name: {{ metalk8s.web.reference }}
    - tree: {{ metalk8s.web.tree }}
""",
    "metalk8s/web/files/pod.yaml.j2": "spec:\n  - image: {{ metalk8s.web.reference }}\n",
    "_states/metalk8s_pod.py": "def managed(name):\n"
    "    return __salt__['metalk8s_pods.digest'](name)\n",
    "_states/metalk8s_image.py": "def loaded(name, tree):\n    pass\n",
    "_modules/metalk8s_pods.py": "def digest(name):\n    pass\n",
    "_modules/metalk8s_map.py": "def known(saltenv):\n    pass\n",
    "_modules/metalk8s_network.py": "def address(network):\n    pass\n",
    "metalk8s/orchestrate/deploy_node.sls": "Go on:\n  metalk8s_run.done: []\n",
    "metalk8s/orchestrate/remove_node.sls": "Go back:\n  metalk8s_run.done: []\n",
    "_states/metalk8s_run.py": "STEP = 'metalk8s_drain.drain'\n\ndef done(name):\n    pass\n",
    "_modules/metalk8s_drain.py": "def drain(name):\n    pass\n",
}
SCRIPTS = {
    "apply-update.sh": "",
    "bootstrap.example.yaml": "{}",
    "deploy-node.sh": "",
    "doctor.sh": "",
    "remove-node.sh": "",
    "verify.sh": "manifest=$root/MANIFEST\n",
    "bootstrap.sh": 'sh "$root/verify.sh" "$root" || echo See docs/reference/errors.md.\n'
    "python3 -m metalk8s_install\n",
    "metalk8s_install/__init__.py": "",
    "metalk8s_install/__main__.py": "from metalk8s_install import medium\nmedium.run()\n",
    "metalk8s_install/medium.py": "import metalk8s_install.names as names\n\ndef run(self):\n"
    "    return (self.root / 'product.txt').read_text()\n",
    "metalk8s_install/names/__init__.py": "from metalk8s_install.names.all import CALLED\n",
    "metalk8s_install/names/all.py": "CALLED = 'metalk8s.extra'\nUNIT = 'metalk8s.service'\n",
}


PAGES = {
    "CHANGELOG.md": "# Changes\n",
    "LICENSE": "Do as you like.\n",
    "docs/README.md": "[web](how-to/web.md#start), [project](https://project.example)\n",
    "docs/html/index.html": '<a href="how-to/web.html"><link href="s.css?v=1">',
    "docs/html/how-to/web.html": '<a href="../index.html#top">',
    "docs/html/s.css": "a { background: url(s.png) }",
    "docs/html/s.png": "",
    "docs/how-to/web.md": "[manual](../README.md), [changes](../../CHANGELOG.md)\n",
    "docs/reference/errors.md": "[start](../how-to/web.md)\n",
}


def sha(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def image(name: str, tag: str) -> dict[str, str]:
    """Return the files of an image of one layer."""
    config, layer = json.dumps({"of": name}), f"layer of {name}"
    manifest = {
        "schemaVersion": 2,
        "config": {"digest": f"sha256:{sha(config)}", "size": len(config)},
        "layers": [{"digest": f"sha256:{sha(layer)}", "size": len(layer)}],
    }
    folder = f"images/{name}/{tag}"
    return {
        f"{folder}/version": "Directory Transport Version: 1.1\n",
        f"{folder}/manifest.json": json.dumps(manifest),
        f"{folder}/{sha(config)}": config,
        f"{folder}/{sha(layer)}": layer,
    }


def index(name: str, tag: str) -> dict[str, str]:
    """Return the files of an OCI layout: an index, a manifest, a layer."""
    layer = f"layer of {name}"
    manifest = json.dumps({"layers": [{"digest": f"sha256:{sha(layer)}", "size": len(layer)}]})
    inner = json.dumps({"manifests": [{"digest": f"sha256:{sha(manifest)}"}]})
    kind = "application/vnd.oci.image.index.v1+json"
    outer = {"manifests": [{"mediaType": kind, "digest": f"sha256:{sha(inner)}"}]}
    folder = f"images/{name}/{tag}"
    return {
        f"{folder}/oci-layout": "{}",
        f"{folder}/index.json": json.dumps(outer),
        **{f"{folder}/blobs/sha256/{sha(text)}": text for text in (inner, manifest, layer)},
    }


def apt(packages: dict[str, str]) -> dict[str, str]:
    """Return the files of an APT repository of packages: name to version."""
    folder, files, rows = "packages/debian/metalk8s", {}, []
    for name, version in packages.items():
        file = f"pool/main/{name}_{version}_amd64.deb"
        files[f"{folder}/{file}"] = name
        rows.append(
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nFilename: {file}\n"
            f"Size: {len(name)}\nSHA256: {sha(name)}\nDescription: a package\n with: colons\n"
        )
    dist, text = f"{folder}/dists/bookworm", "\n".join(rows)
    release = f"Suite: bookworm\nSHA256:\n {sha(text)} {len(text)} main/binary-amd64/Packages\n"
    signed = {f"{dist}/InRelease": release, f"{dist}/Release.gpg": "signature"}
    return {
        **files,
        **signed,
        f"{dist}/Release": release,
        f"{dist}/main/binary-amd64/Packages": text,
    }


def rpm(release: str, packages: dict[str, tuple[str, str]]) -> dict[str, str | bytes]:
    """Return the files of an RPM repository: name to version and release."""
    folder, files = f"packages/redhat/metalk8s-el{release}", {}
    rows = []
    for name, (version, build) in packages.items():
        file = f"{name}-{version}-{build}.x86_64.rpm"
        files[f"{folder}/{file}"] = name
        rows.append(
            f"<package><name>{name}</name><arch>x86_64</arch><version epoch='0' ver='{version}' "
            f"rel='{build}'/><checksum>{sha(name)}</checksum><size package='{len(name)}'/>"
            f"<location href='{file}'/><format><rpm:license>MIT</rpm:license></format></package>"
        )
    spaces = f"xmlns='{REPO}/common' xmlns:rpm='{REPO}/rpm'"
    primary = gzip.compress(f"<metadata {spaces}>{''.join(rows)}</metadata>".encode(), mtime=0)
    repomd = (
        f"<repomd xmlns='{REPO}/repo'><data type='primary'><checksum>{sha(primary)}</checksum>"
        "<location href='repodata/primary.xml.gz'/></data></repomd>"
    )
    return {
        **files,
        f"{folder}/repodata/primary.xml.gz": primary,
        f"{folder}/repodata/repomd.xml": repomd,
        f"{folder}/repodata/repomd.xml.asc": "signature",
    }


def serving(paths: Iterable[str]) -> str:
    """Return a registry configuration that serves files."""
    kind = "application/vnd.oci.image.manifest.v1+json"
    documents = tuple(Document(sha(path), kind, path.removeprefix("images/")) for path in paths)
    options = Options(f"{MOUNT}/images", f"metalk8s-{VERSION}")
    return str(render([Repository("all", (), documents)], options))


def complete() -> dict[str, bytes]:
    """Return a complete medium: path to content."""
    versions = {
        "metalk8s": {"version": VERSION},
        "kubernetes": {"version": "1.20.2"},
        "images": {"web": {"version": "1.0"}, "kube-index": {"version": "v1.20.2"}},
        "packages": {
            "debian": {"agent": {"version": "1.0-1"}, "kubelet": {"version": "1.20.2-1"}},
            "redhat": {"agent": {"version": "1.0", "release": "1"}},
        },
    }
    images = {**image("web", "1.0"), **index("kube-index", "v1.20.2")}
    files: dict[str, str | bytes] = {
        "product.txt": f"NAME=Demo\nVERSION={VERSION}\n",
        **PAGES,
        "keys/metalk8s.gpg": "key",
        "keys/metalk8s.asc": "key",
        "lock/debian.lock": "{}",
        "lock/replaced.txt": "",
        "registry-config.inc": serving(images),
        "sbom/cyclonedx.json": "{}",
        "sbom/spdx.json": "{}",
        "SHA256SUM": "sums",
        "SHA256SUM.sig": "signature",
        "MANIFEST.sig": "signature",
        **SCRIPTS,
        **images,
        **apt({"agent": "1.0-1", "kubelet": "1.20.2-1"}),
        **rpm("9", {"agent": ("1.0", "1")}),
        **{f"salt/{path}": text for path, text in STATES.items()},
        "salt/metalk8s/extra.sls": "Show the index:\n  metalk8s_image.loaded:\n    - tree: x\n"
        f"    - name: registry.invalid/metalk8s-{VERSION}/kube-index:v1.20.2\n",
        "salt/metalk8s/versions.json": json.dumps(versions),
        "pillar/top.sls": '{{ saltenv }}:\n  "*":\n    - metalk8s.node\n',
        "pillar/metalk8s/node.sls": "{%- load_yaml as table %}\n"
        "a: {{ grains.id }}\nb: {{ opts.id }}\n{%- endload %}\n"
        "metalk8s: {{ table | json }}\n",
    }
    return {path: t.encode() if isinstance(t, str) else t for path, t in files.items()}


def listed(files: dict[str, bytes], **facts: str) -> dict[str, bytes]:
    """Return a medium with its MANIFEST, as a build would write it."""
    entries = [
        Entry(path, sha(content), "f", 0o644, len(content))
        for path, content in files.items()
        if not path.startswith(listing.NAME)
    ]
    facts = {"name": "Demo", "version": VERSION, **facts}
    return {**files, listing.NAME: listing.text(facts, entries).encode()}


class Memory:
    """A medium that is a dictionary."""

    name = "the medium"

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def paths(self) -> frozenset[str]:
        return frozenset(self.files)

    def read(self, path: str) -> bytes:
        return self.files[path]

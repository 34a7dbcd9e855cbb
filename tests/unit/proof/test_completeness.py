import json

import pytest

from buildchain.core.errors import ContentError
from buildchain.medium import contents
from buildchain.proof import completeness
from tests.unit import mounted
from tests.unit.mounted import VERSION, Memory, complete, listed

SPARE = {path: text.encode() for path, text in mounted.image("spare", "1").items()}


def problems(files, declared=None, given=None):
    return completeness.find(Memory(files), declared or {}, given or {})


def test_nothing_is_missing():
    assert problems(listed(complete())) == []
    completeness.prove(Memory(listed(complete())), {}, {})


@pytest.mark.parametrize("path", sorted(listed(complete())))
def test_every_object_is_missed(path):
    """Whatever is taken from the tree before it is listed is named by who wants it."""
    files = complete()
    files.pop(path, None)
    files = listed(files) if path != "MANIFEST" else files
    found = problems(files)
    assert any(path in problem for problem in found), found


def test_what_is_listed_and_gone_is_named():
    files = listed(complete())
    del files["lock/replaced.txt"]
    [problem] = problems(files)
    assert problem == "lock/replaced.txt is not on the medium, MANIFEST (and 1 more) wants it"


def changed(path, old, new):
    files = complete()
    text = files[path].decode()
    assert old in text
    return {**files, path: text.replace(old, new).encode()}


def with_versions(**changes):
    files = complete()
    document = json.loads(files["salt/metalk8s/versions.json"])
    for names, value in changes.items():
        *parents, last = names.split("__")
        table = document
        for name in parents:
            table = table[name]
        table[last] = value
    return {**files, "salt/metalk8s/versions.json": json.dumps(document).encode()}


LEFT_OVER = "is on the medium, nothing refers to it"


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {**complete(), **SPARE},
            f"image spare:1 {LEFT_OVER}",
        ),
        (
            {**complete(), **SPARE},
            "image spare:1 is on the medium, registry-config.inc does not serve it",
        ),
        ({**complete(), "salt/metalk8s/old.sls": b"{}"}, f"salt/metalk8s/old.sls {LEFT_OVER}"),
        ({**complete(), "salt/_modules/metalk8s_old.py": b""}, f"metalk8s_old.py {LEFT_OVER}"),
        (
            changed("registry-config.inc", f"{mounted.MOUNT}/images/", "/mnt/images/"),
            f"registry-config.inc serves /mnt/images, not {mounted.MOUNT}/images",
        ),
        ({**complete(), "notes.txt": b""}, f"notes.txt {LEFT_OVER}"),
        ({**complete(), "images/web/1.0/0abc": b""}, f"images/web/1.0/0abc {LEFT_OVER}"),
        (
            {**complete(), "packages/debian/metalk8s/pool/main/x_1_all.deb": b""},
            f"x_1_all.deb {LEFT_OVER}",
        ),
        (
            changed("salt/metalk8s/web/files/pod.yaml.j2", "{{ metalk8s.web.reference }}", "web:2"),
            "pod.yaml.j2 refers to the image web:2, which is not on the medium",
        ),
        (
            changed("salt/metalk8s/agent/files/debian/agent.conf.j2", "key =",
                    f"pause = other.host/metalk8s-{VERSION}/pause:3\nkey ="),
            f"agent.conf.j2 refers to the image other.host/metalk8s-{VERSION}/pause:3",
        ),
        (with_versions(images__web__version="1.1"), "salt/metalk8s/versions.json names the image"),
        (with_versions(images={}), "salt/metalk8s/web/running.sls: There is no image web (debian"),
        (with_versions(metalk8s__version="2.8.0"), "product.txt is of version 2.9.0"),
        (with_versions(kubernetes__version="1.20.3"), "image kube-index has version v1.20.2"),
        (with_versions(kubernetes__version="1.20.3"), "debian package kubelet has version 1.20.2"),
        (
            with_versions(packages__redhat__agent__release="2"),
            "versions.json says agent 1.0-2, packages/redhat/metalk8s-el9 has 1.0-1",
        ),
        (
            with_versions(packages__debian__tool={"version": "1"}),
            "versions.json says tool 1, packages/debian/metalk8s has none",
        ),
        (with_versions(packages__suse={"agent": {}}), "there is no repository in packages/suse"),
        (with_versions(packages__suse=["agent"]), "versions.json does not say what it should"),
        (
            changed("salt/metalk8s/agent/installed.sls", "{{ metalk8s.packages | json }}", "[zip]"),
            "installed.sls installs zip on debian 12, which is neither on the medium nor part of",
        ),
        (
            changed("salt/metalk8s/web/running.sls", "image.loaded", "image.gone"),
            "running.sls calls gone, which salt/_states/metalk8s_image.py does not define",
        ),
        (
            changed("salt/metalk8s/map.jinja", "metalk8s_network.address", "metalk8s_network.none"),
            "map.jinja calls none, which salt/_modules/metalk8s_network.py does not define",
        ),
        (changed("salt/_states/metalk8s_image.py", "def", "dfe"), "metalk8s_image.py is no Python"),
        (changed("images/web/1.0/manifest.json", "{", "["), "manifest.json is no manifest"),
        (
            changed("salt/metalk8s/web/running.sls", "{%- set", "{%- ste"),
            "salt/metalk8s/web/running.sls: it cannot be rendered: Encountered unknown tag 'ste'",
        ),
        (
            changed("salt/metalk8s/web/running.sls", "Run the web:", "Run: the: web:"),
            "salt/metalk8s/web/running.sls: it is no YAML",
        ),
        (
            changed("metalk8s_install/medium.py", "'product.txt'", "'salt' / 'gone.json'"),
            "salt/gone.json is not on the medium, metalk8s_install/medium.py wants it",
        ),
        (
            changed("bootstrap.sh", "$root/verify.sh", "$root/check.sh"),
            "check.sh is not on the medium, bootstrap.sh wants it",
        ),
        (
            changed("docs/how-to/web.md", "../README.md", "../../README.md"),
            "README.md is not on the medium, docs/how-to/web.md wants it",
        ),
        (
            changed("salt/_modules/metalk8s_pods.py", "pass", 'return "salt://metalk8s/web/x.sh"'),
            "salt/metalk8s/web/x.sh is not on the medium, salt/_modules/metalk8s_pods.py wants it",
        ),
        ({**complete(), "docs/how-to/lost.md": b""}, f"docs/how-to/lost.md {LEFT_OVER}"),
        ({**complete(), "docs/html/lost.html": b""}, f"docs/html/lost.html {LEFT_OVER}"),
        (
            changed("docs/html/s.css", "s.png", "gone.png"),
            "docs/html/gone.png is not on the medium, docs/html/s.css wants it",
        ),
        (
            changed("bootstrap.sh", "reference/errors", "errors"),
            "docs/errors.md is not on the medium, bootstrap.sh wants it",
        ),
        (
            changed("metalk8s_install/names/all.py", "metalk8s.extra", "metalk8s.none"),
            "salt/metalk8s/none.sls is not on the medium, metalk8s_install/names/all.py wants it",
        ),
    ],
)  # fmt: skip
def test_contradictions(files, sentence):
    found = problems(listed(files))
    assert any(sentence in problem for problem in found), found


def test_a_reference_by_digest():
    files = complete()
    digest = mounted.sha(files["images/web/1.0/manifest.json"])
    pod = f"image: registry.invalid/metalk8s-{VERSION}/web@sha256:{digest}\n"
    files["salt/metalk8s/web/files/pod.yaml.j2"] = pod.encode()
    assert problems(listed(files)) == []
    files["salt/metalk8s/web/files/pod.yaml.j2"] = pod.replace(digest, "0" * 64).encode()
    assert len(problems(listed(files))) == 1


def test_what_is_declared_unused_may_be_there():
    files = {**complete(), **SPARE}
    images = [path for path in files if path.startswith("images/")]
    files["registry-config.inc"] = mounted.serving(images).encode()
    assert problems(listed(files), {"spare:1": "for the site's own pods"}) == []
    [problem] = problems(listed(complete()), {"web:1.0": "not true"})
    assert problem == "image web:1.0 is declared unused, but something refers to it"


def test_a_link_to_a_folder_leads_to_all_pages_in_it():
    files = {**complete(), "docs/adr/1.md": b"[gone](2.md)", "docs/adr/3.md": b""}
    first = files["docs/README.md"] + b"[why](adr/)\n"
    found = problems(listed({**files, "docs/README.md": first}))
    assert found == ["docs/adr/2.md is not on the medium, docs/adr/1.md wants it"]
    assert len(problems(listed(files))) == 2


def test_what_the_system_has_need_not_be_there():
    files = changed("salt/metalk8s/agent/installed.sls", "{{ metalk8s.packages | json }}", "[zip]")
    assert problems(listed(files), given={"debian": ["zip"], "redhat": ["zip"]}) == []


def test_further_keys_and_the_lock_of_rpms():
    names = ("metalk8s.gpg.sig", "metalk8s-0123456789ABCDEF.gpg", "metalk8s-0123456789ABCDEF.asc")
    files = {**complete(), **{f"keys/{name}": b"" for name in names}}
    assert problems(listed(files)) == []
    assert len(problems(listed({**files, "keys/other.gpg": b""}))) == 1
    files = with_versions(signing_keys={"redhat": {"9": ["keys/redhat/9/os.asc"]}})
    assert problems(listed(files)) == [
        "lock/redhat.lock is not on the medium, the operator wants it"
    ]
    files["lock/redhat.lock"] = b"{}"
    assert problems(listed(files)) == []


def test_all_problems_are_told_at_once():
    files = {path: text for path, text in complete().items() if not path.startswith("salt/_")}
    with pytest.raises(ContentError, match=r"the medium is not complete: \d+ problems") as caught:
        completeness.prove(Memory(listed(files)), {}, {})
    for name in ("metalk8s_pod.py", "metalk8s_image.py", "metalk8s_network.py"):
        assert name in caught.value.details


def test_an_unlisted_file():
    found = problems({**listed(complete()), "notes.txt": b""})
    assert "notes.txt is on the medium, MANIFEST does not list it" in found


def test_a_folder_and_an_image_are_read_alike(tmp_path, fake_program):
    files = listed(complete())
    for path, content in files.items():
        target = tmp_path / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    with contents.opened(tmp_path / "tree") as tree:
        assert tree.paths() == set(files)
        assert completeness.find(tree, {}, {}) == []
        with pytest.raises(KeyError):
            tree.read("nothing")

"""What is ours in Kubernetes: the version says so; patches are applied and say whence they are."""

import re

import pytest

FOLDER = "packages/kubernetes"
FIELDS = ("Author", "Origin", "Forwarded", "Last-Update")


@pytest.fixture
def patches(root):
    return sorted((root / FOLDER / "patches").iterdir())


def test_the_version_is_said_once(root):
    said = re.findall(r"\+metalk8s\.\d+", (root / FOLDER / "compile.sh").read_text("utf-8"))
    assert len(said) == 1


def test_tags_of_images_hold_it_not(root):
    for line in (root / "buildchain/pins/default/images.toml").read_text("utf-8").splitlines():
        assert not (line.startswith("version") and "+" in line), line


def test_the_spec_applies_every_patch_in_order(root, patches):
    spec = (root / FOLDER / "kubernetes.spec").read_text("utf-8")
    named = re.findall(r"^Patch(\d+): +(\S+)$", spec, re.MULTILINE)
    assert named == [(str(number), path.name) for number, path in enumerate(patches)]
    applied = " ".join(f"%{{PATCH{number}}}" for number, _ in named)
    assert f"sh %{{SOURCE2}} %{{SOURCE0}} %{{SOURCE1}} source {applied}\n" in spec


def test_patches_say_whence_they_are(patches):
    for path in patches:
        header = path.read_text("utf-8").partition("\n---\n")[0]
        missing = [field for field in FIELDS if not re.search(f"(?m)^{field}: .", header)]
        assert missing == [], path.name
        named = set(re.findall(r"cve-\d+-\d+", path.name))
        assert named <= {found.lower() for found in re.findall(r"CVE-\d+-\d+", header)}, path.name


def test_patches_against_vulnerabilities_bring_a_test(patches):
    for path in patches:
        if "cve-" in path.name:
            assert "_test.go\n" in path.read_text("utf-8"), path.name

"""Scripts that packages with Go libraries of Debian have in common (packages/golang)."""

import subprocess
import tarfile

import pytest

CONTROL = "Source: demo\nXS-Go-Import-Path: example.org/demo, example.org/old\n"
PATCH = "--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-one\n+two\n"
OURS = "--- a/main.go\n+++ b/main.go\n@@ -1 +1 @@\n-two\n+three\n"
DEBIAN = {
    "debian/changelog": "demo (1.0~ds1-2) bookworm; urgency=medium\n",
    "debian/control": CONTROL,
    "debian/copyright": "Files: *\n",
    "debian/patches/series": "# comment\none.patch\n",
    "debian/patches/one.patch": PATCH,
}
GOCODE = {
    "usr/share/gocode/src/example.org/demo/old.go": "a piece of the same sources",
    "usr/share/gocode/src/golang.org/x/sys/unix.go": "library",
    "usr/share/doc/golang-golang-x-sys-dev/copyright": "authors",
    "usr/share/doc/systemd/copyright": "not linked",
}


def archive(path, files):
    folder = path.with_suffix(".files")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with tarfile.open(path, "w") as stream:
        for child in sorted(folder.iterdir()):
            stream.add(child, child.name)
    return path


@pytest.fixture
def prepare(root, tmp_path):
    """Return a function that runs prepare.sh on sources with other files than usual."""

    def run(debian=DEBIAN, gocode=GOCODE):
        (tmp_path / "ours.patch").write_text(OURS)
        archives = [
            archive(tmp_path / "demo.orig.tar", {"demo-1.0/main.go": "one\n"}),
            archive(tmp_path / "demo.debian.tar", debian),
            archive(tmp_path / "demo-gocode.tar", gocode),
        ]
        script = root / "packages" / "golang" / "prepare.sh"
        argv = ["sh", script, *archives, tmp_path / "tree", tmp_path / "ours.patch"]
        return subprocess.run(argv, check=False, capture_output=True, text=True)

    return run


def test_the_tree_is_a_gopath(prepare, tmp_path):
    done = prepare()
    assert done.returncode == 0, done.stderr
    tree = tmp_path / "tree"
    assert {str(p.relative_to(tree)): p.read_text() for p in tree.rglob("*") if p.is_file()} == {
        "debian/changelog": DEBIAN["debian/changelog"],
        "debian/control": CONTROL,
        "debian/copyright": "Files: *\n",
        "doc/golang-golang-x-sys-dev/copyright": "authors",
        "src/example.org/demo/main.go": "three\n",
        "src/golang.org/x/sys/unix.go": "library",
    }


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"debian": {**DEBIAN, "debian/control": "Source: demo\n"}}, "no XS-Go-Import-Path"),
        (
            {"debian": {**DEBIAN, "debian/patches/one.patch": PATCH.replace("-one", "-other")}},
            "one.patch does not apply",
        ),
        ({"gocode": {"usr/share/doc/golang-x/copyright": ""}}, "does not hold what it should"),
    ],
)
def test_nothing_is_left_of_a_tree_that_cannot_be_made(prepare, tmp_path, changed, problem):
    done = prepare(**changed)
    assert done.returncode == 1
    assert problem in done.stderr
    assert list(tmp_path.glob("tree*")) == []


@pytest.mark.parametrize(
    ("path", "library"),
    [
        ("github.com/docker/go-units", "github.com/docker/go-units"),
        ("github.com/cpuguy83/go-md2man/v2/md2man", "github.com/cpuguy83/go-md2man"),
        (
            "github.com/fullsailor/pkcs7",
            "github.com/fullsailor/pkcs7 golang-github-fullsailor-pkcs7-dev",
        ),
        ("go.etcd.io/bbolt", "go.etcd.io/bbolt golang-github-coreos-bbolt-dev"),
        (
            "go.opentelemetry.io/otel/trace",
            "go.opentelemetry.io/otel golang-opentelemetry-otel-dev",
        ),
        ("golang.org/x/sys/unix", "golang.org/x/sys golang-golang-x-sys-dev"),
        ("google.golang.org/grpc/codes", "google.golang.org/grpc golang-google-grpc-dev"),
        ("gopkg.in/inf.v0", "gopkg.in/inf.v0 golang-gopkg-inf.v0-dev"),
        (
            "gopkg.in/square/go-jose.v2/json",
            "gopkg.in/square/go-jose.v2 golang-gopkg-square-go-jose.v2-dev",
        ),
        ("k8s.io/klog/v2", "k8s.io/klog golang-k8s-klog-dev"),
        (
            "sigs.k8s.io/structured-merge-diff/v4/value",
            "sigs.k8s.io/structured-merge-diff golang-k8s-sigs-structured-merge-diff-dev",
        ),
    ],
)
def test_the_package_of_a_library(root, path, library):
    argv = ["sh", "-c", ". packages/golang/golang.sh; libraries"]
    said = subprocess.check_output(argv, cwd=root, input=f"{path}\n", text=True)
    assert said == f"{library}\n"

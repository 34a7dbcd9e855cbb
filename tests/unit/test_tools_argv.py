"""Whole argument lists of the smaller tools."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.tools import git, gpg, iso, mmdebstrap, repository, rpm, skopeo

HOME = Path("/h")
GPG = ["gpg", "--homedir", HOME, "--batch", "--no-tty", "--pinentry-mode", "loopback"]
SIGN = [*GPG, "--faked-system-time", "5!", "--digest-algo", "SHA256", "--local-user", "AB",
        "--output", Path("/o")]  # fmt: skip
ISO = ["mk", "-output", Path("/o"), "-R", "-J", "-joliet-long", "-l", "-V", "V 1", "-uid", "0",
       "-gid", "0", "-iso-level", "3", "-input-charset", "utf-8", "-output-charset",
       "utf-8"]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            git.argv_for_describe("git", Path("/r")),
            ["git", "-C", Path("/r"), "describe", "--always", "--long", "--tags", "--dirty"],
        ),
        (
            git.argv_for_date("git", Path("/r")),
            ["git", "-C", Path("/r"), "log", "-1", "--format=%ct"],
        ),
        (
            git.argv_for_files("git", Path("/r"), "*.sh"),
            ["git", "-C", Path("/r"), "ls-files", "--cached", "--others", "--exclude-standard",
             "--", "*.sh"],
        ),
        (gpg.argv_for_generation(HOME, Path("/p")), [*GPG, "--gen-key", Path("/p")]),
        (gpg.argv_for_import(HOME, Path("/k")), [*GPG, "--import", Path("/k")]),
        (gpg.argv_for_listing(HOME), [*GPG, "--list-secret-keys", "--with-colons"]),
        (
            gpg.argv_for_secret_export(HOME, "AB", Path("/o")),
            [*GPG, "--armor", "--output", Path("/o"), "--export-secret-keys", "AB"],
        ),
        (
            gpg.argv_for_export(HOME, "AB", Path("/o"), armor=False),
            [*GPG, "--export-options", "export-minimal", "--output", Path("/o"), "--export", "AB"],
        ),
        (
            gpg.argv_for_export(HOME, "AB", Path("/o"), armor=True),
            [*GPG, "--armor", "--export-options", "export-minimal", "--output", Path("/o"),
             "--export", "AB"],
        ),
        (
            gpg.argv_for_signature(HOME, ["AB"], Path("/f"), Path("/o"), epoch=5),
            [*SIGN, "--detach-sign", Path("/f")],
        ),
        (
            gpg.argv_for_signature(HOME, ["AB"], Path("/f"), Path("/o"), epoch=5, kind="armored"),
            [*SIGN, "--armor", "--detach-sign", Path("/f")],
        ),
        (
            gpg.argv_for_signature(HOME, ["AB"], Path("/f"), Path("/o"), epoch=5, kind="clear"),
            [*SIGN, "--clear-sign", Path("/f")],
        ),
        (
            gpg.argv_for_verification([Path("/k")], Path("/s"), Path("/f")),
            ["gpgv", "--keyring", Path("/k"), Path("/s"), Path("/f")],
        ),
        (
            gpg.argv_for_rpms(HOME, "AB", 5, [Path("/a.rpm"), Path("/b.rpm")],
                              program="/bin/gpg"),
            ["rpmsign", "--addsign", "--define", "_gpg_path /h", "--define", "_gpg_name AB",
             "--define",
             "__gpg_sign_cmd /bin/gpg gpg --homedir %{_gpg_path} --batch --no-tty --no-armor"
             " --faked-system-time 5! --digest-algo sha256 -u %{_gpg_name}"
             " -sbo %{__signature_filename} %{__plaintext_filename}",
             Path("/a.rpm"), Path("/b.rpm")],
        ),
        (
            iso.argv_for_iso("mk", Path("/r"), Path("/o"), volume_id="V 1", epoch=1700000000,
                             reproducible=True),
            [*ISO, "--set_all_file_dates", "2023111422132000",
             "--modification-date=2023111422132000", Path("/r"),
             "--", "-pacifier", "interval=0.1"],
        ),
        (
            iso.argv_for_iso("mk", Path("/r"), Path("/o"), volume_id="V 1", epoch=0,
                             reproducible=False),
            [*ISO, Path("/r")],
        ),
        (
            repository.argv_for_packages("pool"),
            ["apt-ftparchive", "-q", "packages", "pool"],
        ),
        (
            repository.argv_for_release("dists/s", suite="s", architecture="amd64", label="L",
                                        epoch=1700000000),
            ["apt-ftparchive", "-q",
             "-o", "APT::FTPArchive::Release::Origin=L",
             "-o", "APT::FTPArchive::Release::Label=L",
             "-o", "APT::FTPArchive::Release::Suite=s",
             "-o", "APT::FTPArchive::Release::Codename=s",
             "-o", "APT::FTPArchive::Release::Architectures=amd64",
             "-o", "APT::FTPArchive::Release::Components=main",
             "-o", "APT::FTPArchive::Release::Date=Tue, 14 Nov 2023 22:13:20 UTC",
             "-o", "APT::FTPArchive::Release::MD5=false",
             "-o", "APT::FTPArchive::Release::SHA1=false",
             "-o", "APT::FTPArchive::Release::SHA512=false",
             "release", "dists/s"],
        ),
        (
            repository.argv_for_createrepo(Path("/f"), epoch=5),
            ["createrepo_c", "--quiet", "--no-database", "--checksum=sha256", "--workers=1",
             "--revision=5", "--set-timestamp-to-revision", Path("/f")],
        ),
        (
            rpm.argv_for_rpmbuild("-bs", "/spec/a.spec", {"_topdir": "/work", "a": "b c"}),
            ["rpmbuild", "-bs", "--nodeps", "--target", "x86_64", "--define", "_topdir /work",
             "--define", "a b c", "/spec/a.spec"],
        ),
        (
            skopeo.argv_for_export("skopeo", "a:1", Path("/o")),
            ["skopeo", "--insecure-policy", "copy", "--quiet", "--format", "v2s2",
             "docker-daemon:a:1", "dir:/o"],
        ),
        (
            skopeo.argv_for_export("sk", "a:1", Path("/o"), engine="tcp://e:1"),
            ["sk", "--insecure-policy", "copy", "--quiet", "--format", "v2s2",
             "--src-daemon-host=tcp://e:1", "docker-daemon:a:1", "dir:/o"],
        ),
        (
            skopeo.argv_for_policy(
                "sk", "r/a@sha256:0", Path("/o"), policy=Path("/p"), platform="linux/arm/v7"
            ),
            ["sk", "--policy=/p", "--override-os=linux", "--override-arch=arm",
             "--override-variant=v7", "copy", "--quiet", "--preserve-digests",
             "--remove-signatures", "--src-tls-verify=true", "--dest-shared-blob-dir=/o/blobs",
             "docker://r/a@sha256:0", "oci:/o/image:checked"],
        ),
        (
            skopeo.argv_for_policy(
                "sk", "r/a@sha256:0", Path("/o"), policy=Path("/p"), platform="all", plain=True,
                login=Path("/l"),
            ),
            ["sk", "--policy=/p", "copy", "--quiet", "--preserve-digests", "--remove-signatures",
             "--multi-arch=all", "--src-tls-verify=false", "--src-authfile=/l",
             "--dest-shared-blob-dir=/o/blobs", "docker://r/a@sha256:0", "oci:/o/image:checked"],
        ),
    ],
)  # fmt: skip
def test_arguments(argv, expected):
    assert argv == expected


@pytest.mark.parametrize(("as_root", "mode"), [(True, "root"), (False, "unshare")])
def test_mmdebstrap(as_root, mode):
    argv = mmdebstrap.argv_for_root(
        Path("/r"), Path("/k"), "s", ["a", "b"], Path("/o.tar"), as_root=as_root
    )
    assert argv[:5] == ["mmdebstrap", "--variant=minbase", f"--mode={mode}", "--format=tar",
                        "--include=a,b"]  # fmt: skip
    assert argv[-3:] == ["s", Path("/o.tar"), "deb [signed-by=/k] copy:/r s main"]
    hooks = [str(word) for word in argv if str(word).startswith("--customize-hook=")]
    for path in mmdebstrap.USELESS:
        assert any(f' "$1"{path}' in hook for hook in hooks), path
    for path in mmdebstrap.KEPT_FOLDERS:
        assert any("mkdir -p" in hook and f'"$1"{path}' in hook for hook in hooks), path


def test_mmdebstrap_hooks_do_not_leave_the_root(tmp_path):
    """The hooks are shell: run them on a tree and look at what is left."""
    import subprocess

    target = tmp_path / "root"
    for name in ("etc/hostname", "etc/keep", "var/lib/apt/lists/x", "var/log/apt/y"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).touch()
    argv = mmdebstrap.argv_for_root(Path("/r"), Path("/k"), "s", ["a"], Path("/o"), as_root=True)
    for word in argv:
        if str(word).startswith("--customize-hook="):
            hook = str(word).partition("=")[2]
            subprocess.run(["sh", "-euc", hook, "sh", str(target)], check=True)
    assert [p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()] == [
        "etc/keep"
    ]
    assert (target / "var/lib/apt/lists/partial").is_dir()


def test_fingerprint():
    listing = "sec:u:3072:1:AA:1:::u:::scSC:::+:::23::0:\nfpr:::::::::ABCDEF:\ngrp:::::::::00:\n"
    assert gpg.parse_fingerprint(listing + listing.replace("ABCDEF", "SECOND")) == "ABCDEF"
    assert gpg.parse_fingerprint("") == ""


def test_key_parameters_make_a_signing_key_that_never_expires():
    text = gpg.key_parameters()
    assert "Key-Usage: sign\n" in text
    assert "Expire-Date: 0\n" in text
    assert f"Creation-Date: seconds={gpg.DEVELOPMENT_KEY_CREATED}\n" in text


@pytest.mark.parametrize(
    ("line", "percent"),
    [
        ("xorriso : UPDATE :  42.53% done", 42.53),
        (" 10.01% done, estimate finish Tue", 10.01),
        ("100% done", 100.0),
        ("Thank you for being patient for 3 seconds.", None),
        ("", None),
    ],
)
def test_progress(line, percent):
    assert iso.parse_progress(line) == percent


@given(st.floats(0, 100).map(lambda value: round(value, 2)), st.text(max_size=5))
def test_progress_of_any_percentage(value, noise):
    assert iso.parse_progress(f" {value:.2f}% done{noise}") == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xorriso 1.5.4 : RockRidge filesystem manipulator", True),
        ("GNU xorriso 1.5.4", True),
        ("genisoimage 1.1.11 (Linux)", False),
        ("mkisofs 3.02", False),
    ],
)
def test_is_reproducible(text, expected):
    assert iso.is_reproducible(text) is expected

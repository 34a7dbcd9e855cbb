"""Argument lists of skopeo."""

from pathlib import Path

import pytest

from buildchain.pulls import skopeo


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
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

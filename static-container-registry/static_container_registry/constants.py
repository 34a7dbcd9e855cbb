"""The part of the configuration that is the same for every archive.

nginx takes a regular expression twice (the first wins) where it refuses to start over
an exact or prefix location given twice. So these are regular expressions, and any
number of archives may bring them, in any order: no address of an image ever reaches
them, since archives rename theirs before a location is looked for.
"""

from __future__ import annotations

from .grammar import DIGEST
from .manifest import OCI_INDEX, index
from .syntax import answer, compact, json_error, refuse_writes


def render_constants() -> str:
    """The base endpoint and the errors for what no archive knows."""
    unknown = (
        (r"/v2/.+/manifests/[^/]*", "MANIFEST_UNKNOWN", "manifest unknown"),
        (r"/v2/.+/blobs/[^/]*", "BLOB_UNKNOWN", "blob unknown"),
        (r"/v2/.+/tags/list", "NAME_UNKNOWN", "repository name not known"),
        (r"/v2/[\s\S]*", "UNSUPPORTED", "not an address this registry serves"),
    )
    wrong = json_error("DIGEST_INVALID", "not a digest")
    return "\n".join(
        [
            refuse_writes(),
            answer(r'location ~ "^/v2/?\z"', 200, "{}"),
            answer(r'location ~ "^/v2/_catalog\z"', 200, compact({"repositories": []})),
            # Before it is looked at whose it would be.
            answer(rf'location ~ "^/v2/.+/referrers/(?!{DIGEST[1:]})[^/]*\z"', 400, wrong),
            # Never a 404, which would tell clients that this registry has no such interface.
            answer(
                rf'location ~ "^/v2/.+/referrers/{DIGEST[1:]}"', 200, index(), media_type=OCI_INDEX
            ),
            *(
                answer(rf'location ~ "^{pattern}\z"', 404, json_error(code, message))
                for pattern, code, message in unknown
            ),
        ]
    )

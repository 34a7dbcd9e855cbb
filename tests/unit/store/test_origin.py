import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core.errors import ConfigError
from buildchain.store.failure import TransferError
from buildchain.store.origin import Origin, origin_of

HERE = {"https_proxy": "http://proxy.example:3128"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ""),
        ({"http_proxy": "http://other"}, ""),
        (HERE, "http://proxy.example:3128"),
        ({"HTTPS_PROXY": "proxy.example"}, "http://proxy.example"),
        ({"all_proxy": "http://[::1]:8"}, "http://[::1]:8"),
        ({**HERE, "HTTPS_PROXY": "http://upper"}, "http://proxy.example:3128"),
    ],
)
def test_proxy(environ, expected):
    assert Origin("https", "r.example", 443).proxy(environ) == expected


@pytest.mark.parametrize(
    ("no_proxy", "host", "exempt"),
    [
        ("*", "r.example", True),
        ("r.example", "r.example", True),
        ("r.example", "a.r.example", True),
        ("r.example", "bar.example", False),
        ("bar.example", "foobar.example", False),
        (".example", "r.example", True),
        ("*.example", "r.example", True),
        ("R.Example", "r.example", True),
        ("x, r.example:443", "r.example", True),
        ("r.example:8443", "r.example", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("::1", "::1", True),
        ("[::1]:443", "::1", True),
        ("", "r.example", False),
    ],
)
def test_no_proxy(no_proxy, host, exempt):
    found = Origin("https", host, 443).proxy({**HERE, "no_proxy": no_proxy})
    assert (found == "") is exempt


@pytest.mark.parametrize("value", ["socks5://u:secret@p", "https://p", "http://", "http://p:x"])
def test_other_proxies_are_refused_without_showing_them(value):
    with pytest.raises(ConfigError) as caught:
        Origin("https", "r.example", 443).proxy({"https_proxy": value})
    assert caught.value.reason == "https_proxy: expected http://[user:password@]host:port"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://r.example", Origin("https", "r.example", 443)),
        ("http://r.example:5000/v2/a?x=1#y", Origin("http", "r.example", 5000)),
        ("https://[::1]:5000/a", Origin("https", "::1", 5000)),
        ("https://R.example/a b\u00fc%20", Origin("https", "r.example", 443)),
    ],
)
def test_origin_of(url, origin):
    assert origin_of(url) == origin


STRANGE = (
    "http://evil.example\\@r.example/",
    "http://u:secret@r.example/",
    "http://r.example\u3002x/",
)


@pytest.mark.parametrize(
    "url",
    [*STRANGE, "", "r.example/a", "ftp://r.example/", "http:///a", "http://r:x/", "http:\\\\r/",
     "file:///etc/passwd"],
)  # fmt: skip
def test_origin_of_refuses(url):
    with pytest.raises(TransferError) as caught:
        origin_of(url)
    assert "secret" not in caught.value.reason


@given(st.text("htps:/\\@#?[]%.a1-\t \u3002", max_size=20).map("http://".__add__))
def test_who_is_asked_is_who_we_think(url):
    """What decides about logins and what connects read an address the same way."""
    import requests

    try:
        origin = origin_of(url)
        prepared = requests.Request("GET", url).prepare().url
    except (TransferError, requests.RequestException):
        return
    assert urllib.parse.urlsplit(prepared).hostname == origin.host


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        (Origin("https", "r.example", 443), "r.example"),
        (Origin("http", "r.example", 443), "r.example:443"),
        (Origin("http", "::1", 5000), "[::1]:5000"),
    ],
)
def test_origin_name(origin, name):
    assert origin.name == name

import pytest

from buildchain.core.errors import ConfigError
from buildchain.store import proxy

HERE = {"https_proxy": "http://proxy.example:3128"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"http_proxy": "http://other"}, None),
        (HERE, ("proxy.example", 3128)),
        ({"HTTPS_PROXY": "proxy.example"}, ("proxy.example", 80)),
        ({"all_proxy": "http://[::1]:8"}, ("::1", 8)),
        ({**HERE, "HTTPS_PROXY": "http://upper"}, ("proxy.example", 3128)),
    ],
)
def test_choose(environ, expected):
    found = proxy.choose(environ, "https", "r.example", 443)
    assert (found and (found.host, found.port)) == expected


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
    found = proxy.choose({**HERE, "no_proxy": no_proxy}, "https", host, 443)
    assert (found is None) is exempt


def test_a_login_is_sent_and_not_shown():
    found = proxy.choose({"http_proxy": "http://us%40er:pass@p.example"}, "http", "r", 80)
    assert found is not None
    assert found.headers == {"Proxy-Authorization": "Basic dXNAZXI6cGFzcw=="}
    assert "dXNA" not in repr(found)


@pytest.mark.parametrize("value", ["socks5://u:secret@p", "https://p", "http://", "http://p:x"])
def test_other_proxies_are_refused_without_showing_them(value):
    with pytest.raises(ConfigError) as caught:
        proxy.choose({"https_proxy": value}, "https", "r.example", 443)
    assert caught.value.reason == "https_proxy: expected http://[user:password@]host:port"

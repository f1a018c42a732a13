"""What a URL means, what an entry covers, and which addresses are of the open internet."""

import ipaddress
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from berm import Refused
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities._hosts import Hosts, Origin, is_public, parse_entry, parse_url


def covers(entry, url):
    return parse_entry(entry).covers(parse_url(url).origin)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("api.x.org", "https://api.x.org"),
        ("api.x.org", "https://api.x.org:443/a?b#c"),
        ("api.x.org", "HTTPS://API.X.Org/"),
        ("API.x.org.", "https://api.x.org./"),
        ("https://api.x.org", "https://api.x.org/"),
        ("http://api.x.org", "http://api.x.org:80/"),
        ("http://api.x.org:8080", "http://api.x.org:8080/"),
        ("api.x.org:8443", "https://api.x.org:8443/"),
        ("*.y.org:8443", "https://a.y.org:8443/"),
        ("*.y.org", "https://a.b.y.org/"),
        ("localhost", "https://localhost/"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("http://127.0.0.1", "http://2130706433/"),
        ("http://[::1]:8000", "http://[0:0::1]:8000/"),
        ("1.1.1.1", "https://1.1.1.1/"),
        ("xn--bcher-kva.example", "https://XN--bcher-kva.example/"),
    ],
)
def test_an_entry_covers(entry, url):
    assert covers(entry, url)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("api.x.org", "http://api.x.org/"),  # https unless it says otherwise
        ("http://api.x.org", "https://api.x.org/"),
        ("api.x.org", "https://api.x.org:8443/"),
        ("api.x.org:8443", "https://api.x.org/"),
        ("api.x.org", "https://x.org/"),
        ("api.x.org", "https://a.api.x.org/"),
        ("api.x.org", "https://api.x.org.evil.com/"),
        ("api.x.org", "https://evilapi.x.org/"),
        ("*.y.org", "https://y.org/"),
        ("*.y.org", "https://evily.org/"),
        ("*.y.org", "https://y.org.evil.com/"),
        ("*.y.org", "https://a.y.org:8443/"),
        ("127.0.0.1", "https://[::ffff:127.0.0.1]/"),
        ("127.0.0.1", "https://[::1]/"),
        ("localhost", "https://127.0.0.1/"),
        ("127.0.0.1", "https://localhost/"),
        ("localhost", "https://a.localhost/"),
    ],
)
def test_an_entry_does_not_cover(entry, url):
    assert not covers(entry, url)


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "*",
        "*.",
        "*.*.x.org",
        "a.*.x.org",
        "x.*",
        "*x.org",
        "ftp://x.org",
        "x.org/path",
        "x.org/",
        "https://",
        "x.org:",
        "x.org:0",
        "x.org:65536",
        "x.org:http",
        "x..org",
        ".x.org",
        "-x.org",
        "x.org..",
        "user@x.org",
        "x.org?q",
        "x.org#f",
        "bücher.example",
        "x%2eorg",
        "::1",
        "[::1",
        "[::1%eth0]",
        "[127.0.0.1]",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "[0:0::1]",
        "*.127.0.0.1",
        "*.[::1]",
        "x" * 64 + ".org",
        "a." * 127 + "org",
        " x.org",
        "x.org\n",
        "x org",
        "x.org,y.org",
    ],
)
def test_what_is_no_entry_is_an_error(entry):
    with pytest.raises(ValueError, match="host"):
        parse_entry(entry)


def test_no_entries_are_an_error():
    with pytest.raises(ValueError, match="at least one host"):
        Hosts.parse([])


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("127.65530", "127.0.255.250"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.0.0.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("1.1.1.1", "1.1.1.1"),
        ("0251.0376.0251.0376", "169.254.169.254"),
        ("[::1]", "::1"),
        ("[0000:0:0::0001]", "::1"),
        ("[::ffff:7f00:1]", "::ffff:7f00:1"),
    ],
)
def test_numeric_hosts_are_addresses(host, address):
    origin = parse_url(f"http://{host}/").origin
    assert origin.address == ipaddress.ip_address(address)


@pytest.mark.parametrize(
    "host",
    [
        "256.0.0.1",
        "1.2.3.4.5",
        "1.2.3.256",
        "1.2.65536",
        "1.16777216",
        "4294967296",
        "0x100000000",
        "08.0.0.1",
        "1..2",
        "a.1",
        "example.0x1",
        "1.2.3.4..",
        "9" * 5000,
        "0x" + "f" * 5000,
        "[1.2.3.4]",
        "[::1]x",
        "[::1",
        "::1",
        "[]",
        "[::1%25eth0]",
        "[fe80::1%eth0]",
        "[v1.x]",
    ],
)
def test_numeric_hosts_that_are_no_address_are_errors(host):
    with pytest.raises(Failure):
        parse_url(f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.x.org",
        "//api.x.org/",
        "https:api.x.org",
        "https:/api.x.org",
        "https:///api.x.org",
        "https://",
        "https:\\\\api.x.org\\",
        "ftp://api.x.org/",
        "file:///etc/passwd",
        "javascript://api.x.org/%0aalert(1)",
        "https://user@api.x.org/",
        "https://api.x.org@evil.com/",
        "https://api.x.org:x@evil.com/",
        "https://api.x.org%40evil.com/",
        "https://evil.com\\@api.x.org/",
        "https://api.x.org\\.evil.com/",
        "https://api%2ex.org/",
        "https://api.x.org%00.evil.com/",
        "https://api.x.org:/",
        "https://api.x.org:0/",
        "https://api.x.org:65536/",
        "https://api.x.org:443:443/",
        "https://api.x.org:+443/",
        "https://api.x.org:٤٤٣/",
        "https://api。x。org/",
        "https://api\uff0ex.org/",
        "https://\uff41pi.x.org/",
        "https://ⓐpi.x.org/",
        "https://bücher.example/",
        "https://api.x.org\u200b/",
        "https://api.x.org\t/",
        "https://api.x.org\n/",
        "https://api.x.org /",
        " https://api.x.org/",
        "https://api.x.org/a b",
        "https://api.x.org/a\r\nHost: evil.com",
        "https://api.x.org/\\..\\x",
        "https://api.x.org/\x7f",
        "https://api.x.org/a\0b",
        "https://api.x.org/#a\nb",
        "https://api..x.org/",
        "https://.api.x.org/",
        "https://-a.org/",
        "https://a-.org/",
        "https://" + "a" * 64 + ".org/",
        "https://api.x.org/" + "a" * (16 << 10),
        "https://*.x.org/",
        "https://api.x.org;evil.com/",
    ],
)
def test_what_is_no_url_or_could_be_two_is_an_error(url):
    with pytest.raises(Failure):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://x.org", b"/"),
        ("https://x.org?q", b"/?q"),
        ("https://x.org/#f", b"/"),
        ("https://x.org/a/../b", b"/a/../b"),
        ("https://x.org/%2e%2e/%zz", b"/%2e%2e/%zz"),
        ("https://x.org/ü?ß=€#x", b"/%C3%BC?%C3%9F=%E2%82%AC"),
        ("https://x.org/@:!$&'()*+,;=?/?", b"/@:!$&'()*+,;=?/?"),
        ("https://x.org//y.org/", b"//y.org/"),
    ],
)
def test_path_and_query_are_sent_as_they_are(url, target):
    assert parse_url(url).target == target


def test_the_authority_is_made_from_the_parts():
    assert parse_url("https://X.org.:443/").origin.authority == "x.org"
    assert parse_url("http://x.org:443/").origin.authority == "x.org:443"
    assert parse_url("http://[::1]:81/").origin.authority == "[::1]:81"


PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "198.17.255.255",
]
PUBLIC += [
    "223.255.255.255",
    "100.63.255.255",
    "100.128.0.1",
    "2606:4700::1111",
    "2a00:1450::1",
    "2001:4860::8888",
]
NOT_PUBLIC = ["0.0.0.0", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254"]
NOT_PUBLIC += ["169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1"]
NOT_PUBLIC += ["192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1"]
NOT_PUBLIC += [
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:8.8.8.8",
    "::ffff:127.0.0.1",
    "64:ff9b::8.8.8.8",
]
NOT_PUBLIC += [
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
]
NOT_PUBLIC += ["4000::1", "5f00::1", "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1"]


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_open_internet(address):
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_addresses_that_need_an_entry_of_their_own(address):
    assert not is_public(ipaddress.ip_address(address))


def vetted(entries, url, *addresses):
    hosts = Hosts.parse(entries)
    origin = parse_url(url).origin
    hosts.require(origin)
    return [str(address) for address in hosts.vetted(origin, map(ipaddress.ip_address, addresses))]


def test_public_addresses_pass_and_others_do_not():
    assert vetted(["x.org"], "https://x.org", "1.1.1.1", "10.0.0.1", "2606:4700::1") == [
        "1.1.1.1",
        "2606:4700::1",
    ]
    for address in ("127.0.0.1", "169.254.169.254", "::ffff:1.1.1.1", "64:ff9b::101:101"):
        with pytest.raises(Refused, match=f"{ipaddress.ip_address(address)} is not granted"):
            vetted(["x.org", "*.x.org"], "https://x.org", address)
    assert vetted(["x.org"], "https://x.org") == []


def test_an_address_of_its_own_entry_passes_for_the_same_scheme_and_port_only():
    assert vetted(["x.org", "10.0.0.1"], "https://x.org", "10.0.0.1", "10.0.0.2") == ["10.0.0.1"]
    assert vetted(["x.org:81", "[fd00::1]:81"], "https://x.org:81", "fd00::1") == ["fd00::1"]
    for literal in ("http://10.0.0.1", "10.0.0.1:8443", "*.x.org", "localhost"):
        with pytest.raises(Refused):
            vetted(["x.org", literal], "https://x.org", "10.0.0.1")


def test_localhost_stands_for_the_two_loopback_addresses():
    assert vetted(["localhost"], "https://localhost", "127.0.0.1", "::1") == ["127.0.0.1", "::1"]
    with pytest.raises(Refused):
        vetted(["localhost"], "https://localhost", "127.0.0.2")
    with pytest.raises(Refused):
        vetted(["x.org", "*.localhost"], "https://x.org", "127.0.0.1")


@given(st.text(max_size=60))
@example("https://[::1]:1/")
def test_any_text_is_a_url_or_an_error(text):
    """Invariant: `parse_url` returns parts that are safe to send, or raises `Failure`."""
    for candidate in (text, f"https://{text}", f"http://a.b/{text}"):
        try:
            url = parse_url(candidate)
        except Failure:
            continue
        assert url.origin.scheme in {"http", "https"}
        assert url.origin.host.isascii()
        assert not set(url.origin.authority) & set("/?#@% \r\n\\")
        assert not set(url.target) & set(b" \r\n\0#\\")


@given(st.from_regex(r"https?://[a-z0-9.:@%\[\]\\/?#-]{1,30}", fullmatch=True))
def test_what_we_accept_others_read_alike(text):
    """Invariant: no accepted URL has another host for the standard library."""
    try:
        origin = parse_url(text).origin
    except Failure:
        return
    if origin.address is None:
        assert (urlsplit(text).hostname or "").removesuffix(".") == origin.host


@given(st.text(max_size=40))
def test_any_text_is_an_entry_or_an_error(text):
    """Invariant: `parse_entry` returns an entry, or raises `ValueError`."""
    try:
        entry = parse_entry(text)
    except ValueError:
        return
    assert isinstance(entry.origin, Origin)

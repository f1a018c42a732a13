"""Which hosts may be reached: entries of a declaration, URLs of a request, and addresses that came from DNS.

Pure functions and values. A URL is taken apart once, here, and what is sent and connected to is made from
these parts; nobody looks at its text again. Hosts are compared as they are written, in lower case and without
one trailing dot: no percent signs, no Unicode (whose dots and letters have look-alikes), no user names.
Whatever a resolver would read as a number is an IPv4 address. An address that is not public is reached
through a literal entry only.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote

from berm import Refused
from crabtalk.capabilities._failure import Failure

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL_BYTES: Final = 16 << 10
DEFAULT_PORTS: Final = {"https": 443, "http": 80}
LOCALHOST: Final = "localhost"
LOOPBACK: Final[tuple[Address, ...]] = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))

_MAX_HOST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z")
_URL: Final = re.compile(r"([A-Za-z]+)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?\Z")
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?\Z")
_ENTRY: Final = re.compile(r"(?:([a-z]+)://)?(\*\.)?(\[[^\[\]]*\]|[^:\[\]/?#*]*)(?::([0-9]{1,5}))?\Z")
# What ASCII a path and a query may hold as it is; the rest of it has no place in a URL.
_VISIBLE: Final = re.compile(r"[!-\[\]-~]*\Z")
_ASCII: Final = "".join(map(chr, range(0x21, 0x7F)))

# Globally reachable addresses are what is left of these (IANA's registries of special purpose addresses).
_PUBLIC_V6: Final = ipaddress.IPv6Network("2000::/3")
_SPECIAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared with a carrier
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, and the metadata services of clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/3",  # multicast, reserved, broadcast
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: an IPv4 address in disguise
            "3fff::/20",  # documentation
        ),
    )
)


class Origin(NamedTuple):
    """Where a request goes."""

    scheme: str
    host: str  # a name in lower case, or an address in its canonical form, without brackets
    port: int

    @property
    def address(self) -> Address | None:
        """The address that the host is, None for a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """What the `Host` header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class Url(NamedTuple):
    """A URL, taken apart."""

    origin: Origin
    target: bytes  # path and query, as sent


@dataclass(frozen=True)
class Entry:
    """One line of `hosts`."""

    origin: Origin  # of the host itself, or of what a wildcard's hosts end in
    subdomains: bool

    def covers(self, origin: Origin) -> bool:
        """Report whether requests to `origin` are granted."""
        if (origin.scheme, origin.port) != (self.origin.scheme, self.origin.port):
            return False
        if self.subdomains:
            return origin.host.endswith("." + self.origin.host) and origin.address is None
        return origin.host == self.origin.host


@dataclass(frozen=True)
class Hosts:
    """The bound: what may be reached."""

    entries: tuple[Entry, ...]

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "Hosts":
        """Read the entries of a declaration.

        Raises:
            ValueError: for one that is no entry, or none at all.
        """
        parsed = cls(tuple(map(parse_entry, entries)))
        if not parsed.entries:
            raise ValueError("expected at least one host")
        return parsed

    def require(self, origin: Origin) -> None:
        """Let an origin pass that an entry covers.

        Raises:
            Refused: for any other.
        """
        if not any(entry.covers(origin) for entry in self.entries):
            raise Refused(f"host is not granted: `{origin.scheme}://{origin.authority}`")

    def vetted(self, origin: Origin, addresses: Iterable[Address]) -> list[Address]:
        """Return those addresses of an origin that may be connected to.

        Raises:
            Refused: if there are addresses and none may be.
        """
        found = list(addresses)
        vetted = [address for address in found if is_public(address) or self._is_literal(origin, address)]
        if found and not vetted:
            raise Refused(f"`{origin.host}` has no public address, and {found[0]} is not granted by itself")
        return vetted

    def _is_literal(self, origin: Origin, address: Address) -> bool:
        """Report whether an entry names this very address, with this scheme and port."""
        host = origin._replace(host=str(address))
        local = origin._replace(host=LOCALHOST)
        return any(
            entry.covers(host) or (address in LOOPBACK and not entry.subdomains and entry.covers(local))
            for entry in self.entries
        )


def parse_entry(text: str) -> Entry:
    """Read `host`, `*.host`, either with `http://` or `https://` before it and `:port` after it.

    Raises:
        ValueError: if it is anything else.
    """
    match = _ENTRY.match(text)
    scheme = (match.group(1) or "https") if match else ""
    if not match or scheme not in DEFAULT_PORTS:
        raise ValueError(
            f"host `{text}`: expected one like `api.x.org`, `*.y.org:8443` or `http://[::1]:8080`"
        )
    try:
        origin = Origin(scheme, parse_host(match.group(3)), _port(match.group(4), scheme))
    except Failure as error:
        raise ValueError(f"host `{text}`: {error}") from error
    if origin.address and match.group(2):
        raise ValueError(f"host `{text}`: an address has no subdomains")
    if origin.address and origin.host != match.group(3).strip("[]"):
        raise ValueError(f"host `{text}`: write the address as `{origin.authority}`")
    return Entry(origin, subdomains=bool(match.group(2)))


def parse_url(text: str) -> Url:
    """Take an absolute URL apart.

    Raises:
        Failure: if it is none, or has in it what two programs could read differently.
    """
    if len(text.encode()) > MAX_URL_BYTES:
        raise Failure(f"url is longer than {MAX_URL_BYTES} bytes")
    match = _URL.match(text)
    scheme = match.group(1).lower() if match else ""
    if not match or scheme not in DEFAULT_PORTS:
        raise Failure("url does not start with http:// or https://")
    for character, why in (("@", "a user name"), ("%", "a percent sign"), ("\\", "a backslash")):
        if character in match.group(2):
            raise Failure(f"url has {why} before its path")
    authority = _AUTHORITY.match(match.group(2))
    if not authority:
        raise Failure(f"url has no host and port that make sense: `{match.group(2)[:80]}`")
    origin = Origin(scheme, parse_host(authority.group(1)), _port(authority.group(2), scheme))
    return Url(origin, _target(match.group(3) or "/", match.group(4) or ""))


def parse_host(raw: str) -> str:
    """Return a host in the one form that hosts are compared in.

    Raises:
        Failure: if it is neither a name nor an address.
    """
    if raw.startswith("["):
        return _ipv6(raw.strip("[]"))
    if not raw.isascii():
        raise Failure("host is not ASCII: write an international name in its xn-- form")
    host = raw.lower().removesuffix(".")
    labels = host.split(".")
    if _NUMBER.match(labels[-1]):
        return str(_ipv4(host))
    if len(host) > _MAX_HOST or not all(map(_LABEL.match, labels)):
        raise Failure(f"not a host: `{raw[:80]}`")
    return host


def is_public(address: Address) -> bool:
    """Report whether an address belongs to the open internet and hides no other."""
    if address.version == 6 and address not in _PUBLIC_V6:  # noqa: PLR2004 - the version of the protocol
        return False
    return not any(address in network for network in _SPECIAL if network.version == address.version)


def _port(digits: str | None, scheme: str) -> int:
    if digits is None:
        return DEFAULT_PORTS[scheme]
    if not 0 < int(digits) < 1 << 16:
        raise Failure(f"not a port: {digits}")
    return int(digits)


def _target(path: str, query: str) -> bytes:
    """Encode what stands for itself; escapes that the text has are the server's to read."""
    target = path + query
    if not _VISIBLE.match("".join(character for character in target if character.isascii())):
        raise Failure("url has a space, a control character or a backslash in it")
    return quote(target, safe=_ASCII).encode()


def _ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise Failure(f"not an IPv6 address: `{text[:80]}`") from None
    if address.scope_id is not None:
        raise Failure(f"address has a zone: `{text[:80]}`")
    return str(address)


def _ipv4(host: str) -> ipaddress.IPv4Address:
    """Read every form that resolvers take for an IPv4 address: fewer parts, octal, hexadecimal."""
    parts = host.split(".")
    if len(parts) > 4 or not all(map(_NUMBER.match, parts)):  # noqa: PLR2004 - the parts of an address
        raise Failure(f"not an IPv4 address: `{host[:80]}`")
    numbers = list(map(_ipv4_number, parts))
    *high, low = numbers
    if any(number > 0xFF for number in high) or low >= 1 << 8 * (5 - len(parts)):  # noqa: PLR2004 - a byte
        raise Failure(f"not an IPv4 address: `{host[:80]}`")
    value = low
    for place, number in enumerate(high):
        value |= number << 8 * (3 - place)
    return ipaddress.IPv4Address(value)


def _ipv4_number(part: str) -> int:
    try:
        if part.startswith("0x"):
            return int(part[2:] or "0", 16)
        return int(part, 8) if part.startswith("0") else int(part)
    except ValueError:
        raise Failure(f"not an IPv4 address: `{part[:80]}`") from None

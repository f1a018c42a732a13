"""A capability out of a typed function: its signature says how requests are cut and replies are framed.

Parameters after `call` are `str`, `bytes` or `int`, one field each; a last `list[tuple[str, str]]` takes what
is left as pairs. Replies: None is empty; `str`, `bytes`, `int` one raw field; `list` and `dict` one raw field
of JSON; `tuple[A, B]` framed; `A | None` framed with one field or none. The signature is read once, when
decorated.
"""

import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from berm.binding import Capability, Function
from berm.wire import (
    WireError,
    decode_int,
    decode_pairs,
    decode_text,
    encode_int,
    encode_text,
    pack_fields,
    unpack_fields,
)

Decoder = Callable[[Sequence[bytes]], list[Any]]
Encoder = Callable[[Any], bytes]

_PAIRS = list[tuple[str, str]]


def capability(
    name: str, *, blocking: bool = False, aliases: tuple[str, ...] = ()
) -> Callable[[Function], Capability]:
    """Turn a function with a typed signature into the capability `name`.

    Raises:
        TypeError: when applied to a function whose signature has no framing.
    """

    def decorate(function: Function) -> Capability:
        return Capability(name, framed(function), blocking=blocking, aliases=aliases)

    return decorate


def framed(function: Function) -> Function:
    """Wrap a typed function into one over request and reply bytes.

    Raises:
        TypeError: if its signature has no framing.
    """
    hints = typing.get_type_hints(function)
    decode = _request_decoder(list(inspect.signature(function).parameters.values())[1:], hints)
    if "return" not in hints:
        raise TypeError(f"{_called(function)}: expected an annotated result")
    encode = _reply_encoder(hints["return"], _called(function))
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wait(call: object, request: bytes) -> bytes:
            return encode(await function(call, *decode(unpack_fields(request))))

        return wait

    @functools.wraps(function)
    def run(call: object, request: bytes) -> bytes:
        return encode(function(call, *decode(unpack_fields(request))))

    return run


def _called(function: Function) -> str:
    return getattr(function, "__qualname__", repr(function))


def _request_decoder(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Decoder:
    names = [parameter.name for parameter in parameters]
    for parameter in parameters:
        if parameter.kind not in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            raise TypeError(f"parameter `{parameter.name}`: a field has a position")
    last = names.pop() if names and hints.get(names[-1]) == _PAIRS else None
    single = [(_decoder_of(hints.get(name), name), name) for name in names]
    wanted = len(single)
    signature = f"{wanted} fields ({', '.join(names)})" + (f" and pairs of {last}" if last else "")

    def decode(fields: Sequence[bytes]) -> list[Any]:
        if len(fields) < wanted or (len(fields) > wanted and last is None):
            raise WireError(f"expected {signature}, got {len(fields)} fields")
        values = [decode_one(field, name) for (decode_one, name), field in zip(single, fields, strict=False)]
        if last is not None:
            values.append(decode_pairs(fields[wanted:], last))
        return values

    return decode


def _decoder_of(hint: Any, name: str) -> Callable[[bytes, str], Any]:  # noqa: ANN401 - a type form
    if hint is bytes:
        return lambda field, _name: field
    if hint is str:
        return decode_text
    if hint is int:
        return decode_int
    raise TypeError(
        f"parameter `{name}`: expected str, bytes, int or a last list[tuple[str, str]], got {hint!r}"
    )


def _reply_encoder(hint: Any, name: str) -> Encoder:  # noqa: ANN401 - a type form
    if hint is types.NoneType:
        return functools.partial(_encode_nothing, name)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in {types.UnionType, typing.Union} and types.NoneType in arguments:
        rest = [one for one in arguments if one is not types.NoneType]
        if len(rest) == 1:
            return functools.partial(_encode_optional, _field_encoder(rest[0], name))
    if typing.get_origin(hint) is tuple:
        return functools.partial(_encode_tuple, tuple(_field_encoder(one, name) for one in arguments), name)
    return _field_encoder(hint, name)


def _field_encoder(hint: Any, name: str) -> Encoder:  # noqa: ANN401 - a type form
    plain = typing.get_origin(hint) or hint
    encode = _FIELD_ENCODERS.get(plain)
    if encode is None:
        raise TypeError(f"{name}: no framing for a reply of {hint!r}")

    def checked(value: Any) -> bytes:  # noqa: ANN401 - checked here
        if not isinstance(value, plain):
            raise TypeError(f"{name} returned {type(value).__name__}, expected {plain.__name__}")
        return encode(value)

    return checked


def _encode_json(value: Any) -> bytes:  # noqa: ANN401 - JSON is any value
    return encode_text(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


_FIELD_ENCODERS: dict[Any, Encoder] = {
    bytes: bytes,
    str: encode_text,
    int: encode_int,
    list: _encode_json,
    dict: _encode_json,
}


def _encode_nothing(name: str, value: Any) -> bytes:  # noqa: ANN401 - checked here
    if value is not None:
        raise TypeError(f"{name} returned {type(value).__name__}, expected None")
    return b""


def _encode_optional(encode: Encoder, value: Any) -> bytes:  # noqa: ANN401 - checked by `encode`
    return pack_fields(() if value is None else (encode(value),))


def _encode_tuple(encoders: tuple[Encoder, ...], name: str, values: Any) -> bytes:  # noqa: ANN401 - checked here
    if not isinstance(values, tuple) or len(values) != len(encoders):
        raise TypeError(f"{name} returned {type(values).__name__}, expected a tuple of {len(encoders)}")
    return pack_fields([encode(value) for encode, value in zip(encoders, values, strict=True)])

"""Turns what a function returned into JSON text.

The C encoder does the work where it can; only when it cannot is the value walked in Python, which either makes it
plain or says exactly where the thing is that cannot be written. No type's module is imported: an app that has not
imported `uuid` has no UUIDs.
"""

from __future__ import annotations

import json
import os
import sys

DEPTH_MAX = 200


class Unserialisable(TypeError):
    """A value that has no JSON form; the text names its type and where it is."""


def json_text(value, name: str = "result") -> str:
    """The compact JSON text of `value`. `name` is what the path in an error starts with. Raises Unserialisable."""
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, RecursionError):
        pass  # Left before the walk, so that its error stands alone.
    return _encoder.encode(plain(value, (None, name), 0))


def json_bytes(text: str) -> bytes:
    """`text` as UTF-8; a lone surrogate, which UTF-8 cannot hold, is escaped."""
    return text.encode("utf-8", "backslashreplace")  # Its \udXXX is how JSON writes a surrogate, too.


def plain(value, path: tuple, depth: int):
    """`value` as nothing but dict, list, str, int, float, bool and None; NaN and infinities are None.

    `path` is (path of the container or None, key or index), joined to text only when an error needs it.
    """
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return value
    if isinstance(value, float):
        return float(value) if value - value == 0 else None
    if isinstance(value, (str, int)):
        return _simpler(value)
    if depth > DEPTH_MAX:
        raise Unserialisable("%s is nested too deeply, or contains itself" % _path(path))
    if isinstance(value, dict):
        return {_key(k, path): plain(v, (path, k), depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, (path, index), depth + 1) for index, item in enumerate(value)]
    try:
        simpler = _simpler(value)
    except Unserialisable:
        text = "%s is of type %s, which has no JSON form%s" % (_path(path), _name(kind), _hint(value))
        raise Unserialisable(text) from None
    return plain(simpler, path, depth + 1)


def _default(value):
    """The encoder's hook for what it does not know."""
    return _simpler(value)


def _simpler(value):
    """One step towards JSON for a value that the encoder does not know. Raises Unserialisable."""
    if isinstance(value, (set, frozenset)):
        return list(value)
    if _is_of(value, "enum", "Enum"):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    kind = type(value)
    for method in ("model_dump", "tolist", "item", "isoformat"):  # pydantic; arrays; scalars; dates and times
        if callable(getattr(kind, method, None)):
            return getattr(value, method)()
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name) for name, field in fields.items() if field._field_type.name == "_FIELD"}
    if _is_of(value, "uuid", "UUID"):
        return str(value)
    if _is_of(value, "decimal", "Decimal"):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if _is_of(value, "datetime", "timedelta"):
        return value.total_seconds()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (range, type({}.keys()), type({}.values()))) or _is_of(value, "collections", "deque"):
        return list(value)
    if _is_of(value, "collections.abc", "Mapping"):
        return dict(value)
    if hasattr(kind, "__fields__") and callable(getattr(kind, "dict", None)):  # pydantic 1
        return value.dict()
    raise Unserialisable("the type %s has no JSON form" % _name(kind))


def _is_of(value, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _path(path: tuple) -> str:
    """A path as text, such as result.items[3]; at most about 200 characters of it."""
    parts = []
    while path[0] is not None:
        key = path[1]
        parts.append("[%d]" % key if type(key) is int else ".%s" % (key,))
        path = path[0]
    text = str(path[1]) + "".join(reversed(parts))
    return text if len(text) <= 200 else text[:200] + "…"


def _key(key, path: tuple):
    """A dictionary's key as JSON allows it: text, or what the encoder turns into text."""
    if _is_of(key, "enum", "Enum"):
        key = key.value
    if key is None or type(key) in (str, bool, int):
        return key
    if isinstance(key, float):
        return str(float(key))
    if isinstance(key, (str, int)):
        return _simpler(key)
    if callable(getattr(type(key), "isoformat", None)):
        return key.isoformat()
    if _is_of(key, "uuid", "UUID") or _is_of(key, "decimal", "Decimal") or isinstance(key, os.PathLike):
        return str(key)
    raise Unserialisable("%s has a key that is a %s; keys must be strings" % (_path(path), _name(type(key))))


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)


def _hint(value) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return " (encode it as base64 text)"
    return ""


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default)

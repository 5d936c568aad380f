"""Finds out which simple JSON kinds a parameter's annotation allows, and converts or refuses a value by them.

Only int, float, bool, str, None and unions of these are understood, as classes or as text; any other annotation lets
every value pass. An annotation can be anything at all, so nothing here evaluates one and nothing here raises for one.
Pure.
"""

from __future__ import annotations

import ast
import sys

NUMBER_CHARACTERS_MAX = 400  # Longer text is not taken for a number; the largest float has 309 digits.

_KINDS = {int: "int", float: "float", bool: "bool", str: "str", type(None): "None"}
_NAMES = {"int": int, "float": float, "bool": bool, "str": str}
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a string",
    "None": "null",
}


class Mismatch(Exception):
    """The value does not fit the annotation; the text is "expected …, got …"."""


def kinds_of(annotation, names) -> tuple | None:
    """The kinds that `annotation` allows, in its order, or None when any value may pass.

    `names` are the globals of the function, in which a text annotation is looked up.
    """
    try:
        kinds = _collect(annotation, names, 0)
    except Exception:  # Whatever an odd annotation does, a call must not break on it.
        return None
    return tuple(dict.fromkeys(kinds)) if kinds else None


def _collect(annotation, names, depth: int) -> list | None:
    if depth > 8:
        return None
    if annotation is None:
        return ["None"]
    if isinstance(annotation, str):
        return _collect_text(ast.parse(annotation.strip(), mode="eval").body, names, depth + 1)
    if isinstance(annotation, type) and annotation in _KINDS:
        return [_KINDS[annotation]]
    if hasattr(annotation, "__metadata__") and hasattr(annotation, "__origin__"):
        return _collect(annotation.__origin__, names, depth + 1)
    if _is_union(annotation):
        return _join([_collect(part, names, depth + 1) for part in annotation.__args__])
    forward = getattr(annotation, "__forward_arg__", None)
    if isinstance(forward, str):
        return _collect(forward, names, depth + 1)
    return None


def _is_union(annotation) -> bool:
    typing = sys.modules.get("typing")  # An app that has not imported it cannot have made one of its unions.
    if typing is not None and getattr(annotation, "__origin__", None) is typing.Union:
        return True
    return type(annotation).__name__ in ("UnionType", "Union") and type(annotation).__module__ in ("types", "typing")


def _join(parts: list) -> list | None:
    return None if any(part is None for part in parts) else [kind for part in parts for kind in part]


def _collect_text(node, names, depth: int) -> list | None:
    """Like _collect, of a parsed text annotation; so `str | None` is understood on every Python."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _join([_collect_text(node.left, names, depth), _collect_text(node.right, names, depth)])
    if isinstance(node, ast.Constant):
        return _collect(node.value, names, depth + 1) if node.value is None or isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        found = names.get(node.id, _NAMES.get(node.id))
        return None if found is None or isinstance(found, str) else _collect(found, names, depth + 1)
    if isinstance(node, ast.Subscript):
        inner = getattr(node.slice, "value", node.slice) if type(node.slice).__name__ == "Index" else node.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        word = getattr(node.value, "id", getattr(node.value, "attr", None))
        if word == "Annotated":
            return _collect_text(parts[0], names, depth)
        if word in ("Optional", "Union"):
            kinds = _join([_collect_text(part, names, depth) for part in parts])
            return kinds + ["None"] if kinds and word == "Optional" else kinds
    return None


def convert(value, kinds: tuple):
    """`value` as one of `kinds`: a value that already is of one of them stays as it is. Raises Mismatch."""
    given = _KINDS.get(type(value))
    if given in kinds:
        return value
    for kind in kinds:
        if kind == "int":
            if given == "float" and value.is_integer():
                return int(value)
            if given == "str" and _is_number(value, whole=True):
                return int(value)
        elif kind == "float" and (given == "int" or (given == "str" and _is_number(value, whole=False))):
            try:
                return float(value)
            except OverflowError:
                continue
    words = [_WORDS[kind] for kind in kinds]
    raise Mismatch("expected %s, got %s" % (" or ".join(words), describe(value)))


def _is_number(text: str, whole: bool) -> bool:
    """Whether `text` is a decimal number as JSON writes it, but for a plus sign and spaces around it."""
    text = text.strip()
    if not text or len(text) > NUMBER_CHARACTERS_MAX or not text.isascii():
        return False
    digits = text[1:] if text[0] in "+-" else text
    if digits.isdigit():
        return True
    return not whole and digits[:1].isdigit() and digits[-1].isdigit() and "_" not in digits and _is_float(digits)


def _is_float(text: str) -> bool:
    try:
        return float(text) < float("inf")
    except ValueError:
        return False


def describe(value) -> str:
    """A JSON value in a few words, for a message: its kind and a short sight of it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "the string %s" % (ascii(value) if len(value) <= 40 else ascii(value[:40]) + "…")
    if isinstance(value, (int, float)):
        text = repr(value) if isinstance(value, float) or abs(value) < 1 << 64 else "of %d bits" % value.bit_length()
        return "the number %s" % text
    return "an array" if isinstance(value, list) else "an object"

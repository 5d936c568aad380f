"""How a JSON object becomes arguments: which functions are endpoints, names, conversions, odd annotations."""

import sys
import types
import unittest

import support  # noqa: F401  (puts the runtime on the path)
from slipway_cortex.endpoints import BindingError, Endpoints

FUTURE = "from __future__ import annotations\n"
HEAD = """
import functools
from json import dumps
from typing import *
import typing
import enum
import collections
"""


def app(source):
    """The endpoints of a main.py with that source."""
    module = types.ModuleType("main")
    exec(compile(source, "main.py", "exec", dont_inherit=True), vars(module))
    return Endpoints(module)


def bound(source, body, name="f"):
    """What the function is called with: (positional, named), or the refusal's text."""
    future, source = (FUTURE, source[len(FUTURE) :]) if source.startswith(FUTURE) else ("", source)
    try:
        positional, named = app(future + HEAD + source).find(name).bind(body, "run-1")
    except BindingError as error:
        return str(error)
    return tuple(positional), named


class EndpointsTest(unittest.TestCase):
    def test_finds_the_functions_that_main_defines(self):
        endpoints = app(
            HEAD
            + """
def wraps(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner
def plain(): pass
async def later(): pass
def parts(): yield 1
async def later_parts(): yield 1
@wraps
def decorated(): pass
@functools.lru_cache(maxsize=None)
def cached(): pass
def _private(): pass
class Thing:
    def __call__(self): pass
thing = Thing()
number = 5
lam = lambda: 1
"""
        )
        expected = ["wraps", "plain", "later", "parts", "later_parts", "decorated", "cached", "lam"]
        self.assertEqual(endpoints.names(), expected)
        for name in ("dumps", "functools", "_private", "Thing", "thing", "number", "List", "__name__", "nothing", ""):
            self.assertIsNone(endpoints.find(name), name)
        self.assertIn("plain, later", endpoints.unknown("nothing"))

    def test_finds_a_function_that_the_app_replaces_later(self):
        module = types.ModuleType("main")
        exec("def f(a): pass", vars(module))
        endpoints = Endpoints(module)
        self.assertEqual(list(endpoints.find("f").parameters), ["a"])
        exec("def f(b): pass", vars(module))
        self.assertEqual(list(endpoints.find("f").parameters), ["b"])


class BindTest(unittest.TestCase):
    def test_binds_by_name(self):
        self.assertEqual(bound("def f(a, b=2, *, c=3): pass", {"c": 1, "a": 5}), ((), {"a": 5, "c": 1}))

    def test_names_what_is_missing_or_unknown(self):
        text = bound("def f(prompt, n=1, *, k): pass", {"promt": 1})
        for part in ("'prompt'", "'k'", "'promt'", "n (optional)"):
            self.assertIn(part, text)
        self.assertIn("It takes no parameters", bound("def f(): pass", {"a": 1}))
        self.assertIn("'args'", bound("def f(*args): pass", {"args": [1]}))

    def test_passes_unknown_names_to_kwargs(self):
        self.assertEqual(
            bound("def f(a, **rest): pass", {"a": 1, "b": 2, "run_id": "x"})[1], {"a": 1, "b": 2, "run_id": "x"}
        )

    def test_binds_positional_only_parameters(self):
        self.assertEqual(bound("def f(a, b=2, c=3, /, d=4): pass", {"a": 1, "c": 9, "d": 5}), ((1, 2, 9), {"d": 5}))
        self.assertIn("'a'", bound("def f(a, /): pass", {}))
        self.assertEqual(bound("def f(a, /, **rest): pass", {"a": 1, "b": 2}), ((1,), {"b": 2}))

    def test_injects_the_run_id_and_never_takes_the_body_s(self):
        self.assertEqual(bound("def f(run_id): pass", {})[1], {"run_id": "run-1"})
        self.assertEqual(bound("def f(run_id, /): pass", {})[0], ("run-1",))
        self.assertEqual(
            bound("def f(a, run_id=None): pass", {"a": 1, "run_id": "forged"})[1], {"a": 1, "run_id": "run-1"}
        )
        self.assertIn("'run_id'", bound("def f(a): pass", {"a": 1, "run_id": "x"}))
        self.assertNotIn("run_id", bound("def f(a, run_id): pass", {}))

    def test_leaves_arguments_to_a_decorator_that_may_change_them(self):
        wrapped = """
def adds(function):
    @functools.wraps(function)
    def inner(**kwargs):
        kwargs.pop("key", None)
        return function("db", **kwargs)
    return inner
@adds
def f(db, n: int): pass
"""
        self.assertEqual(bound(wrapped, {"n": "3", "key": "k"}), ((), {"n": 3, "key": "k"}))
        exact = (
            wrapped.replace("**kwargs", "n, m=1", 1).replace('kwargs.pop("key", None)', "").replace("**kwargs", "n=n")
        )
        self.assertIn("'key'", bound(exact, {"n": 3, "key": "k"}))

    def test_understands_methods_of_reading_a_signature_that_fail(self):
        self.assertEqual(bound("def f(a): pass\nf.__signature__ = 5", {"a": 1}), ((), {"a": 1}))


class ConversionTest(unittest.TestCase):
    def check(self, annotation, value, expected, source="def f(a: %s): pass"):
        got = bound(source % annotation, {"a": value})
        if expected is None:
            self.assertIsInstance(got, str, (annotation, value, got))
            self.assertIn("'a'", got)
            return
        self.assertNotIsInstance(got, str, got)
        self.assertEqual((got[1]["a"], type(got[1]["a"])), (expected[0], type(expected[0])), (annotation, value))

    def test_converts_what_is_plainly_meant_and_refuses_the_rest(self):
        huge = 10**400
        for annotation, value, expected in (
            ("int", 3, [3]), ("int", 3.0, [3]), ("int", "3", [3]), ("int", " -3 ", [-3]), ("int", "+3", [3]),
            ("int", 3.5, None), ("int", "3.0", None), ("int", "3_0", None), ("int", "", None), ("int", True, None),
            ("int", None, None), ("int", [3], None), ("int", "\u0663", None),
            ("int", "0x3", None), ("int", "9" * 500, None),
            ("float", 3, [3.0]), ("float", 3.5, [3.5]), ("float", "3.5", [3.5]), ("float", "-1e3", [-1000.0]),
            ("float", "nan", None), ("float", "inf", None), ("float", "1e999", None), ("float", "1_0.5", None),
            ("float", ".5", None), ("float", True, None), ("float", None, None), ("float", huge, None),
            ("float", {}, None),
            ("bool", True, [True]), ("bool", False, [False]), ("bool", 1, None), ("bool", "true", None),
            ("bool", None, None),
            ("str", "x", ["x"]), ("str", "", [""]), ("str", 3, None), ("str", None, None), ("str", ["x"], None),
            ("None", None, [None]), ("None", 0, None),
        ):  # fmt: skip
            self.check(annotation, value, expected)
            self.check(repr(annotation), value, expected)
            self.check(annotation, value, expected, FUTURE + "def f(a: %s): pass")

    def test_converts_by_unions_in_every_spelling(self):
        for annotation, value, expected in (
            ("Optional[int]", None, [None]), ("Optional[int]", "3", [3]), ("Optional[int]", "x", None),
            ("Union[int, float]", 3, [3]), ("Union[int, float]", 3.0, [3.0]), ("Union[float, int]", "3", [3.0]),
            ("Union[int, str]", "3", ["3"]), ("Union[int, str]", 3.5, None), ("Union[str, None]", None, [None]),
            ("Annotated[int, 'x']", "3", [3]), ("typing.Optional[str]", 3, None), ("Optional['int']", "3", [3]),
        ):  # fmt: skip
            if "Annotated" not in annotation or sys.version_info >= (3, 9):
                self.check(annotation, value, expected)
            self.check(repr(annotation), value, expected)
        for annotation, value, expected in (
            ("int | None", None, [None]), ("int | None", "3", [3]), ("None | int", "x", None),
            ("str | None", 3, None), ("int | str | None", "3", ["3"]), ("float | Optional[bool]", 1, [1.0]),
        ):  # fmt: skip
            self.check(repr(annotation), value, expected)
            self.check(annotation, value, expected, FUTURE + "def f(a: %s): pass")
            if sys.version_info >= (3, 10):
                self.check(annotation, value, expected)

    def test_lets_every_other_annotation_pass(self):
        names = "Nowhere = None" if sys.version_info < (3, 14) else ""
        for annotation in (
            "List[dict]", "Dict[str, int]", "Dict", "Any", "Literal['a', 'b']", "Union[int, List[int]]",
            "Optional[dict]",
            "Callable[[int], str]", "collections.OrderedDict", "list", "dict", "object", "enum.Enum", "5", "lambda: 1",
            "{'a': int}", "[int]", "(int, str)", "TypeVar('T')", "NewType('N', int)", "'Nowhere.at.all'",
            "'not python at ('",
            "'Unknown[int]'", "'list[int] | None'", "'int if True else str'", "Ellipsis", "print", "''",
        ):  # fmt: skip
            for value in (None, 3, "3", 3.5, True, [1], {"b": 1}):
                self.check(annotation, value, [value], names + "\ndef f(a: %s): pass")

    def test_never_evaluates_a_text_annotation(self):
        self.check("'print(1 / 0)'", 3, [3])

    def test_takes_null_where_null_is_the_default(self):
        self.assertEqual(bound("def f(a: int = None): pass", {"a": None}), ((), {"a": None}))
        self.assertIn("'a'", bound("def f(a: int = 1): pass", {"a": None}))

    def test_names_each_allowed_kind_once(self):
        for annotation in ("'int | None'", "'None | int'", "int"):
            text = bound("def f(a: %s = None): pass" % annotation, {"a": "x"})
            self.assertEqual(text.count("null"), 1, text)
            self.assertEqual(text.count("a whole number"), 1, text)

    def test_survives_annotations_that_misbehave(self):
        source = """
class Odd(type):
    def __hash__(self): raise RuntimeError("no hash")
    def __getattr__(self, name): raise RuntimeError("no " + name)
class Strange(metaclass=Odd): pass
class Model:
    model_fields = {}
    def __init__(self, **values): raise AssertionError("made by the runtime")
def f(a: Strange, b: Model, c: "Strange | None"): pass
"""
        self.assertEqual(bound(source, {"a": 1, "b": {"x": 1}, "c": 2}), ((), {"a": 1, "b": {"x": 1}, "c": 2}))


if __name__ == "__main__":
    unittest.main()

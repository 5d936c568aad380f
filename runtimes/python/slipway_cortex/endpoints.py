"""Which functions of `main.py` are endpoints, and how a JSON object becomes the arguments of one.

An endpoint is a function that main.py itself defines, under a public name. Looked up at each call, so that a function
that the app replaces later is found; what its signature says is worked out once per function.
"""

from __future__ import annotations

import inspect
import sys
from types import FunctionType

from .annotations import Mismatch, convert, kinds_of

NAMES_SHOWN_MAX = 50


class BindingError(Exception):
    """The arguments do not fit the function; the text names the parameter, what was given, and what is expected."""


class Parameter:
    """One parameter: `kinds` as of annotations.kinds_of, `required` when it has no default."""

    __slots__ = ("name", "kinds", "required", "default", "positional")

    def __init__(self, spec, names) -> None:
        self.name = spec.name
        self.required = spec.default is spec.empty
        self.default = None if self.required else spec.default
        self.positional = spec.kind is spec.POSITIONAL_ONLY
        self.kinds = None if spec.annotation is spec.empty else kinds_of(spec.annotation, names)
        if self.kinds and "None" not in self.kinds and not self.required and self.default is None:
            self.kinds += ("None",)


class Endpoint:
    """A function and its parameters.

    lenient: a decorator with **kwargs stands before the function, which may add or take away arguments; then only the
    call itself shows whether they fit.
    """

    __slots__ = ("name", "function", "parameters", "takes_any", "lenient", "is_async")

    def __init__(self, name: str, function) -> None:
        self.name = name
        self.function = function
        code = getattr(function, "__code__", None)
        self.is_async = bool(code and code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
        try:
            signature, self.lenient = signature_of(function)
            names = getattr(inspect.unwrap(function), "__globals__", {})
            specs = list(signature.parameters.values())
        except Exception:  # A signature that cannot be read: only the call itself can tell.
            specs, names, self.lenient = [], {}, True
        self.takes_any = not specs and self.lenient or any(spec.kind is spec.VAR_KEYWORD for spec in specs)
        self.parameters = {
            spec.name: Parameter(spec, names)
            for spec in specs
            if spec.kind is not spec.VAR_KEYWORD and spec.kind is not spec.VAR_POSITIONAL
        }

    def misfit(self, given) -> str | None:
        """What is missing or unknown among the argument names `given`, as a sentence; None when they fit."""
        missing = [
            p.name for p in self.parameters.values() if p.required and p.name not in given and p.name != "run_id"
        ]
        unknown = [] if self.takes_any else [name for name in given if name not in self.parameters]
        if not missing and not unknown:
            return None
        faults = []
        if missing:
            faults.append("the parameter %s is missing" % quoted(missing))
        if unknown:
            faults.append("there is no parameter %s" % quoted(unknown))
        return "%s: %s. %s" % (self.name, "; ".join(faults), self.describe())

    def describe(self) -> str:
        """The parameters in a sentence."""
        shown = [
            p.name if p.required else p.name + " (optional)" for p in self.parameters.values() if p.name != "run_id"
        ]
        if self.takes_any:
            shown.append("any other name")
        return "It takes: %s." % ", ".join(shown) if shown else "It takes no parameters."

    def bind(self, body: dict, run_id: str) -> tuple:
        """The positional and keyword arguments for `body`. Raises BindingError.

        A parameter named run_id always gets the platform's id, never the body's.
        """
        if not self.lenient:
            misfit = self.misfit(body)
            if misfit is not None:
                raise BindingError(misfit)
        positional = []
        named = dict(body) if self.takes_any or self.lenient else {}
        skipped = False
        for name, parameter in self.parameters.items():
            named.pop(name, None)
            if name == "run_id":
                value: object = run_id
            elif name in body:
                value = self._converted(parameter, body[name])
            elif not parameter.positional or parameter.required:
                skipped = skipped or parameter.positional
                continue
            else:
                value = parameter.default
            if parameter.positional and not skipped:
                positional.append(value)
            else:
                named[name] = value
        return positional, named

    def _converted(self, parameter: Parameter, value):
        if parameter.kinds is None:
            return value
        try:
            return convert(value, parameter.kinds)
        except Mismatch as error:
            raise BindingError("%s: the parameter '%s' does not fit: %s" % (self.name, parameter.name, error)) from None


class Endpoints:
    """The endpoints of one module."""

    def __init__(self, module) -> None:
        self._names = vars(module)
        self._module_name = module.__name__
        self._known: dict = {}

    def find(self, name: str) -> Endpoint | None:
        """The endpoint of that name, or None."""
        function = self._names.get(name)
        if function is None or not self._is_endpoint(name, function):
            return None
        endpoint = self._known.get(name)
        if endpoint is None or endpoint.function is not function:
            endpoint = self._known[name] = Endpoint(name, function)
        return endpoint

    def names(self) -> list:
        """The names of all endpoints, in the order of main.py."""
        return [name for name, value in list(self._names.items()) if self._is_endpoint(name, value)]

    def unknown(self, name: str) -> str:
        """What to say when `name` is not an endpoint."""
        names = self.names()
        shown = ", ".join(names[:NAMES_SHOWN_MAX])
        if not name:
            begin = "the address ends without the name of a function"
            return "%s; main.py has: %s" % (begin, shown) if names else "main.py has no public function"
        if not names:
            return "main.py has no function '%s', nor any other public function" % name[:100]
        return "main.py has no function '%s'; it has: %s" % (name[:100], shown)

    def _is_endpoint(self, name: str, value) -> bool:
        if name.startswith("_") or getattr(value, "__module__", None) != self._module_name:
            return False
        if isinstance(value, FunctionType):
            return True
        # What functools.lru_cache and compilers of functions return: no function, but it says which one it wraps.
        return not isinstance(value, type) and callable(value) and isinstance(vars_wrapped(value), FunctionType)


def vars_wrapped(value):
    """The function that a wrapper object says it wraps, or None. Only real attributes count, not __getattr__."""
    return getattr(value, "__dict__", {}).get("__wrapped__")


def signature_of(function) -> tuple:
    """The signature that callers see, and whether a decorator makes it a mere indication (see Endpoint.lenient)."""
    if not hasattr(function, "__wrapped__"):
        return read_signature(function, True), False
    try:
        own = read_signature(function, False)
    except ValueError:  # A wrapper written in C has no signature of its own and passes everything on.
        return read_signature(function, True), False
    if any(spec.kind is spec.VAR_KEYWORD for spec in own.parameters.values()):
        return read_signature(function, True), True
    return own, False


def read_signature(function, follow: bool):
    """inspect.signature, without evaluating annotations where Python 3.14 would (and would fail on unknown names)."""
    options: dict = {"follow_wrapped": follow}
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        options["annotation_format"] = Format.FORWARDREF
    return inspect.signature(function, **options)


def quoted(names: list) -> str:
    """Some names in quotes; at most ten."""
    more = " and %d more" % (len(names) - 10) if len(names) > 10 else ""
    return ", ".join("'%s'" % name[:100] for name in names[:10]) + more

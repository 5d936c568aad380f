"""Imports the app's `main.py`, and says clearly why when that fails."""

from __future__ import annotations

import os
import signal
import sys

from .endpoints import Endpoints
from .failures import describe, print_failure

MESSAGE_CHARACTERS_MAX = 2000
NOTHING_TO_CALL = (
    "main.py has no public function, so there is nothing to call: define one there, such as def run(name). "
    "Functions that it imports and names that begin with _ do not count. "
    "An app that is a web server itself needs an entrypoint (runtime custom)"
)


class AppError(Exception):
    """The app cannot be served. `report` is "<type>: <message>" for the platform, without a type that is empty; all else is printed already."""

    def __init__(self, kind: str, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.report = "%s: %s" % (kind, message) if kind else message
        self.exit_code = exit_code


def import_app():
    """The module `main` of the working directory. Raises AppError, after the log says what happened."""
    if not os.path.isfile("main.py") and not os.path.isfile(os.path.join("main", "__init__.py")):
        message = "there is no main.py in the app's folder (%s)" % os.getcwd()
        raise failed("FileNotFoundError", message)
    main = explained(lambda: __import__("main"), "while it was imported", shadow_hint)
    if not Endpoints(main).names():
        raise failed("", NOTHING_TO_CALL)
    return main


def prepare_app(module, loop, failure) -> None:
    """Calls the app's `_after_fork`, if it has that. Raises AppError as import_app does, also for `failure`, an earlier one."""

    def prepare() -> None:
        if failure is not None:
            raise failure
        function = getattr(module, "_after_fork", None)
        outcome = function() if callable(function) else None
        if hasattr(outcome, "__await__"):
            loop.run_until_complete(outcome)

    explained(prepare, "in _after_fork")


def explained(action, when: str, hint=None):
    """What action() returns. Raises AppError, after the log says what happened; hint() may add a sentence there."""
    try:
        return action()
    except SystemExit as error:
        if _stopped_by:
            raise AppError("Stopped", "stopped while the app was imported", 128 + _stopped_by[0]) from None
        print_failure(error)
        raise failed("SystemExit", "main.py called sys.exit(%r) %s" % (error.code, when)) from None
    except KeyboardInterrupt:
        raise AppError("Stopped", "interrupted while the app was imported", 130) from None
    except BaseException as error:
        print_failure(error)
        kind, message = describe(error)
        more = hint() if hint is not None else None
        if more:
            sys.stderr.write(more + "\n")
        raise failed(kind, message or kind) from None


_stopped_by: list = []


def stop_starting(number: int, _frame) -> None:
    """The SIGTERM handler during the import: ends it as sys.exit() would; the second time, at once."""
    signal.signal(signal.SIGTERM, stop_at_once)
    _stopped_by.append(number)
    raise SystemExit(128 + number)


def stop_at_once(number: int, _frame) -> None:
    """A signal handler for those who ask twice."""
    os._exit(128 + number)


def failed(kind: str, message: str) -> AppError:
    """Prints the lines by which the platform's clients know a failed start, and returns the error to raise."""
    line = " ".join(message.split())
    if len(line) > MESSAGE_CHARACTERS_MAX:
        line = line[:MESSAGE_CHARACTERS_MAX] + "…"
    sys.stderr.write("|| ERROR || Failure to initialize user app || END ERROR ||\n")
    sys.stderr.write("|| ERROR || Error: %s || END ERROR ||\n" % line)
    sys.stderr.flush()
    return AppError(kind, message)


def shadow_hint() -> str | None:
    """A sentence on modules of the app whose names standard modules have already taken; None when there are none."""
    folder = os.getcwd()
    taken = []
    for entry in sorted(os.listdir(folder)):
        name, dot, ending = entry.partition(".")
        module = sys.modules.get(name)
        if dot and ending == "py" and module is not None:
            origin = getattr(module, "__file__", None) or ""
            if not origin.startswith(folder + os.sep):
                taken.append(entry)
    if not taken:
        return None
    return "Note: %s cannot be imported by that name, because a standard module has it; rename it." % ", ".join(taken)

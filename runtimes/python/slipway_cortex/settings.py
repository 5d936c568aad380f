"""What the platform tells the runtime: the SLIPWAY_* variables, read once, checked, and taken out of the environment.

They are removed so that an app, and whatever an app starts, does not see settings that are not its own.
"""

from __future__ import annotations

MEBIBYTE = 1024 * 1024
SOCKET = "unix:"  # Before the path of a Unix socket in SLIPWAY_LISTEN.


class SettingError(Exception):
    """A variable that cannot be used; the text names it, what was given, and what is allowed."""


class Settings:
    """The settings of one runtime process; times in seconds, sizes in bytes."""

    __slots__ = (
        "host",
        "port",
        "path",
        "concurrency",
        "grace_seconds",
        "log_frames",
        "log_calls",
        "local_hosts",
        "body_bytes_max",
        "idle_seconds",
        "read_seconds",
    )
    host: str
    port: int
    path: str
    concurrency: int
    grace_seconds: float
    log_frames: bool
    log_calls: bool
    local_hosts: bool
    body_bytes_max: int
    idle_seconds: float
    read_seconds: float


def take_settings(environ) -> Settings:
    """The settings in `environ` (a mutable mapping); the variables are gone from it afterwards.

    Raises SettingError for a value that is not allowed.
    """
    settings = Settings()
    taken = {name: environ.pop(name, "").strip() for name in NAMES}
    listen = taken["SLIPWAY_LISTEN"] or "0.0.0.0:8000"
    settings.path = listen[len(SOCKET) :] if listen.startswith(SOCKET) else ""
    settings.host, settings.port = ("", 0) if settings.path else listen_address(listen)
    settings.concurrency = whole(taken, "SLIPWAY_CONCURRENCY", 100, 1, 10_000)
    settings.grace_seconds = number(taken, "SLIPWAY_GRACE_SECONDS", 900.0, 0.0, 86_400.0)
    settings.body_bytes_max = whole(taken, "SLIPWAY_MAX_BODY_BYTES", 512 * MEBIBYTE, 1, 1 << 40)
    settings.idle_seconds = number(taken, "SLIPWAY_IDLE_SECONDS", 90.0, 0.1, 86_400.0)
    settings.read_seconds = number(taken, "SLIPWAY_READ_SECONDS", 60.0, 0.1, 86_400.0)
    settings.log_frames = taken["SLIPWAY_LOG_FRAMES"] == "1"
    settings.log_calls = taken["SLIPWAY_LOG_LEVEL"] in ("DEBUG", "INTERNAL")
    settings.local_hosts = taken["SLIPWAY_LOCAL_HOSTS"] == "1"
    return settings


NAMES = (
    "SLIPWAY_LISTEN",
    "SLIPWAY_CONCURRENCY",
    "SLIPWAY_GRACE_SECONDS",
    "SLIPWAY_LOG_FRAMES",
    "SLIPWAY_LOG_LEVEL",
    "SLIPWAY_LOCAL_HOSTS",
    "SLIPWAY_MAX_BODY_BYTES",
    "SLIPWAY_IDLE_SECONDS",
    "SLIPWAY_READ_SECONDS",
)


def take_ready_fd(environ) -> int | None:
    """The file descriptor in SLIPWAY_READY_FD, or None when it is absent or is not a number above 2.

    Apart from the other settings, so that it can carry the error when one of those cannot be used.
    """
    text = environ.pop("SLIPWAY_READY_FD", "").strip()
    return int(text) if text.isdigit() and len(text) < 10 and int(text) > 2 else None


def take_zygote_path(environ) -> str:
    """The path in SLIPWAY_ZYGOTE, at which a zygote is to listen; "" when this is to be no zygote."""
    return environ.pop("SLIPWAY_ZYGOTE", "").strip()


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host stands in brackets. Port 0 means any free one."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not colon or not host or not (port.isdigit() and port.isascii()) or int(port) > 65535:
        raise SettingError("SLIPWAY_LISTEN is %r; allowed is host:port with a port from 0 to 65535, or unix:/path" % text)
    return host, int(port)


def whole(values, name: str, default: int, least: int, most: int) -> int:
    """The whole number in variable `name`, within least..most."""
    text = values[name]
    if not text:
        return default
    if not (text.isdigit() and text.isascii() and len(text) < 19 and least <= int(text) <= most):
        raise SettingError("%s is %r; allowed is a whole number from %d to %d" % (name, text, least, most))
    return int(text)


def number(values, name: str, default: float, least: float, most: float) -> float:
    """The number in variable `name`, within least..most."""
    text = values[name]
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise SettingError("%s is %r; allowed is a number from %g to %g" % (name, text, least, most))
    return value

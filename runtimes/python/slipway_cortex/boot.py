"""From the start of the process to its end: settings, port, the app's import, serving, draining, exit.

Exit codes: 0 after a drain, 1 when the app cannot be imported, 2 for a setting that cannot be used,
143 or 130 (128 + signal) when stopped while starting or for the second time.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import signal
import sys
import threading
import time

from . import app_log
from .app_import import AppError, import_app, prepare_app, stop_at_once, stop_starting
from .forks import let_go_after_fork
from .listen import ReadyReport, listen, listen_at_path, report_of
from .service import Service
from .settings import NAMES, SettingError, Settings, take_ready_fd, take_settings, take_zygote_path
from .starting import Starting

LEAVING_SECONDS = 5.0  # For the app's non-daemon threads when the process ends.
CANCEL_SECONDS = 2.0  # For tasks that are still there after the drain.


class Opened:
    """What a replica has before its app is there: settings, the listening socket, and who answers at it."""

    def __init__(self, settings: Settings, listener) -> None:
        self.settings = settings
        self.listener = listener
        self.starting = Starting(listener)


def run(here: str) -> None:
    """Runs until the process is told to stop. `here` is the runtime's folder."""
    report = ReadyReport(take_ready_fd(os.environ))
    zygote_path = take_zygote_path(os.environ)
    if zygote_path:
        run_zygote(here, zygote_path, report)
    arrange(here)
    descriptors: list = []
    let_go_after_fork(descriptors)
    opened = open_replica(os.environ, report, descriptors, app_log.install)
    loop = new_loop()
    module = attempt(import_app, report.failed, opened.settings.grace_seconds)
    run_replica(usable(loop), module, report, opened, descriptors)


def run_zygote(here: str, path: str, report: ReadyReport) -> None:
    """Imports the app, and goes on as each replica that somebody asks for at the Unix socket `path`."""
    variables = {name: os.environ.pop(name) for name in NAMES if name in os.environ}
    try:
        from .zygote import Zygote  # Not at the top: an ordinary start needs nothing of it.

        zygote = Zygote(path)
    except (ImportError, OSError) as error:  # A Python may be built without ctypes.
        sys.stderr.write("slipway: %s\n" % error)
        report.zygote("failed", error=report_of(error))
        sys.exit(2)
    arrange(here)
    descriptors = [zygote.descriptors, report.descriptors]
    let_go_after_fork(descriptors)
    zygote.watch()
    loop = new_loop()
    writes_no_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # Replicas cannot have what is written beside the code.
    module = attempt(import_app, lambda error: report.zygote("failed", error=report_of(error)), LEAVING_SECONDS)
    loop = usable(loop)
    reasons = zygote.settle(loop, report.descriptors())
    if reasons:
        report.zygote("refused", reasons=reasons)
        leave(0, LEAVING_SECONDS)
    report.zygote("ready")
    start = zygote.wait()
    sys.dont_write_bytecode = writes_no_bytecode
    # From here on this is the app's process of a replica.
    report = ReadyReport(start.ready_fd)
    variables.update(start.settings)
    opened = open_replica(variables, report, descriptors, lambda frames: zygote.install_log(app_log.install, frames))
    run_replica(loop, module, report, opened, descriptors, zygote.failure)


def open_replica(variables, report: ReadyReport, descriptors: list, install_log) -> Opened:
    """Takes the settings, opens the port, answers there that the replica is alive, and reports that."""
    try:
        settings = take_settings(variables)
        listener = listen_at_path(settings.path) if settings.path else listen(settings.host, settings.port)
    except (SettingError, OSError) as error:
        sys.stderr.write("slipway: %s\n" % error)
        report.failed(error)
        sys.exit(2)
    install_log(settings.log_frames)
    opened = Opened(settings, listener)
    descriptors[:] = [opened.starting.descriptors, report.descriptors]
    opened.starting.start()
    report.listening(listener, settings)
    return opened


def new_loop():
    """The loop that the app gets when it asks for one at import, and that serves it later."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    signal.signal(signal.SIGTERM, stop_starting)
    gc.freeze()  # Collections during the app's life need not look at the runtime's own objects.
    gc.enable()
    return loop


def usable(loop):
    """`loop`, or another one when the app has closed it."""
    return asyncio.new_event_loop() if loop.is_closed() else loop


def attempt(action, failed, grace_seconds: float):
    """What action() returns. When it raises AppError: calls failed(error), and ends the process."""
    try:
        return action()
    except AppError as error:
        failed(error)
        leave(error.exit_code, grace_seconds)


def run_replica(loop, module, report: ReadyReport, opened: Opened, descriptors: list, failure=None) -> None:
    """Has the app prepare itself, and serves it to the end. `failure` is what went wrong before, if anything did."""
    settings = opened.settings
    asyncio.set_event_loop(loop)
    attempt(lambda: prepare_app(module, loop, failure), report.failed, settings.grace_seconds)
    serve(settings, loop, module, opened.listener, opened.starting, report, descriptors)
    leave(0, settings.grace_seconds)


def arrange(here: str) -> None:
    """Gives the app the path and the arguments that it would have if it had been started itself."""
    folder = os.getcwd()
    sys.path[:] = [folder] + [entry for entry in sys.path if entry not in (here, folder, "")]
    sys.path.append(os.path.join(here, "fallback"))
    sys.argv[:] = [os.path.join(folder, "main.py")]


def serve(
    settings: Settings, loop, module, listener, starting: Starting, report: ReadyReport, descriptors: list
) -> None:
    """Serves until drained, then gives what is left of the app's tasks a moment to be cancelled."""
    service = Service(settings, loop, module, loop.stop)
    apps_own = signal.getsignal(signal.SIGTERM)

    def drain(number: int) -> None:
        loop.remove_signal_handler(number)
        signal.signal(number, stop_at_once)
        service.drain()

    descriptors[0] = lambda: descriptors_of(service, listener)
    server = loop.run_until_complete(open_port(service, listener, starting.stop()))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, drain, number)
    report.ready(listener, settings)
    while not service.stopped:
        try:
            loop.run_forever()
        except SystemExit:
            continue  # A task of the app called sys.exit(); that ends the task, not the replica.
    server.close()
    finish_tasks(loop)
    if callable(apps_own) and apps_own is not stop_starting:
        try:
            apps_own(int(signal.SIGTERM), None)  # The app's own clean-up, once nothing runs any more.
        except SystemExit:
            pass


async def open_port(service: Service, listener, held: list):
    """Begins to serve the port and the connections that came while the app was imported."""
    loop = service.loop
    server = await loop.create_server(service.protocol, sock=listener, backlog=2048)
    for client, seen in held:
        try:
            await loop.connect_accepted_socket(lambda seen=seen: service.protocol(seen), client)
        except OSError:
            continue
    return server


def descriptors_of(service: Service, listener) -> list:
    """The descriptors of the port and of every connection."""
    found = [listener.fileno()]
    for connection in list(service.connections):
        client = connection.transport.get_extra_info("socket")
        if client is not None:
            found.append(client.fileno())
    return found


def finish_tasks(loop) -> None:
    """Cancels the tasks that are left and closes async generators, within CANCEL_SECONDS."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()

    async def wait() -> None:
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        await asyncio.wait_for(loop.shutdown_asyncgens(), CANCEL_SECONDS)

    try:
        loop.run_until_complete(wait())
    except (Exception, SystemExit, asyncio.CancelledError):
        pass  # It was their last chance; the process ends in any case.


def leave(code: int, grace_seconds: float) -> None:
    """Ends the process as Python does: threads are joined, then atexit handlers run; but within a bound.

    When a thread of the app has not ended after LEAVING_SECONDS, the handlers run beside it. They may take as long
    as the grace.
    """
    app_log.end_all()
    grace_seconds = max(1.0, grace_seconds)
    handlers_begun = threading.Event()
    atexit.register(handlers_begun.set)  # The last registered runs first.

    def run_handlers() -> None:
        if not handlers_begun.wait(min(LEAVING_SECONDS, grace_seconds)):
            atexit._run_exitfuncs()
            app_log.end_all()
            os._exit(code)

    def end() -> None:
        time.sleep(min(LEAVING_SECONDS, grace_seconds) + grace_seconds)  # Normally the process is gone long before.
        os._exit(code)

    for work in (run_handlers, end):  # Both now: a Python that is ending starts no more threads.
        threading.Thread(target=work, name="slipway-leaving", daemon=True).start()
    sys.exit(code)

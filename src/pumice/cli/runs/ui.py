"""`pumice ui`: shows runs in the browser, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import signal
import sys
import threading
import webbrowser

from pumice.cli.errors import BAD_INPUT, print_error, refuse
from pumice.cli.runs.arguments import FAILED, add_namespace, open_chosen
from pumice.store.run_errors import InvalidOption, RunError

_HIGHEST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="listen on this port; default: a free one")
    parser.add_argument("--no-open", action="store_true", help="print the address, do not open a browser")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    try:
        return asyncio.run(_serve(args))
    except InvalidOption as error:
        print_error(error)
        return BAD_INPUT
    except RunError as error:
        print_error(error)
        return FAILED
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return refuse(f"pumice ui: port {args.port} is in use", "without --port a free one is chosen")
        if error.errno == errno.EACCES:
            return refuse(f"pumice ui: port {args.port}: permission denied", "choose one above 1023")
        print(f"pumice ui: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return FAILED


async def _serve(args: argparse.Namespace) -> int:
    # Only this command needs the HTTP server.
    from pumice.ui.server import PageServer

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    backend = open_chosen(args)
    server = PageServer(backend)
    stopped = asyncio.create_task(stop.wait())
    try:
        starting = asyncio.create_task(server.start(args.port))
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            address = starting.result()
            print(address, flush=True)
            print("this address works once; Ctrl-C stops the page, not the runs", file=sys.stderr, flush=True)
            # A browser with windows: one in the terminal would take the terminal.
            has_display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
            if not args.no_open and has_display:
                # In a thread: some browsers start slowly, and others run in the foreground.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            await stopped
        else:
            starting.cancel()
    finally:
        stopped.cancel()
        await server.stop()
        await backend.close()
    return 0


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text}: must be a port, 0 to {_HIGHEST_PORT}")
    return int(text)

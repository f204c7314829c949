"""Starting the studio: a server on this machine that asks no other host for anything."""

import atexit
import os
import shutil
import socket
import tempfile
import threading
import warnings
from collections.abc import Callable
from typing import Any

from bigain.studio.options import LOOPBACK, StudioOptions

POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"  # the browser refuses what is not from here


def serve(options: StudioOptions | None = None, say: Callable[[str], Any] = lambda text: None) -> None:
    """Start the studio and serve it until interrupted; `say` gets the address as soon as it answers."""
    options = options or StudioOptions()
    options.check()
    server = start(options)
    try:
        say(server.local_url)
        server.block_thread()
    finally:
        server.close(verbose=False)


def start(options: StudioOptions) -> Any:
    """Start the server in threads; -> its page, which can be closed."""
    port = options.port or free_port(options.host)
    prepare()
    from starlette.middleware import Middleware

    from bigain.studio.limits import MAX_UPLOAD, SESSIONS, WAITING
    from bigain.studio.models import Models
    from bigain.studio.page import CSS, HEAD, THEME, build_page

    models = Models(options.models)
    # so that the first visitor need not wait for it
    threading.Thread(target=models.get, args=(options.model,), daemon=True).start()
    page = build_page(options, models)
    page.queue(max_size=WAITING, api_open=False)
    page.launch(
        server_name=options.host, server_port=port, prevent_thread_lock=True, quiet=True, inbrowser=False, share=False,
        footer_links=[], run_history=False, enable_monitoring=False, ssr_mode=False, pwa=False, mcp_server=False,
        max_file_size=MAX_UPLOAD, state_session_capacity=SESSIONS, theme=THEME, css=CSS, head=HEAD,
        app_kwargs={"middleware": [Middleware(Guard)], "docs_url": None, "redoc_url": None},
    )  # fmt: skip
    return page


def prepare() -> None:
    """Settings that gradio reads when it is imported; uploads go to a folder that ends with the process."""
    if "GRADIO_TEMP_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="bigain-studio-")
        os.environ["GRADIO_TEMP_DIR"] = folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    warnings.filterwarnings("ignore", "correct=True costs more")  # visitors see what it costs


def free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host if host != "0.0.0.0" else LOOPBACK, 0))
        return int(probe.getsockname()[1])


class Guard:
    """Adds the header that keeps the browser from asking other hosts."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        await self.app(scope, receive, sending)

"""A real browser, and a studio for it to look at."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
RUN = "from bigain.cli import app; app(prog_name='bigain')"
PATIENCE = 90  # seconds; nothing takes so long but on a busy machine


def browser() -> str:
    return needed("chromium", "chromium-browser", "google-chrome")


def driver() -> str:
    return needed("chromedriver")


def needed(*names: str) -> str:
    """Where a program is; without it tests are left out, unless the environment says that it must be there."""
    found = next((path for name in names if (path := shutil.which(name))), "")
    if not found and os.environ.get("BIGAIN_NEED_BROWSER") == "1":
        pytest.fail(f"BIGAIN_NEED_BROWSER=1, but there is no {names[0]}")
    if not found:
        pytest.skip(f"no {names[0]}; install it, pages are looked at with it")
    return found


@contextmanager
def opened(profile: Path, width: int, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """A browser window as wide as that, which notes what it asks for."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser()
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    for word in (*OPTIONS, scheme, f"--user-data-dir={profile}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver()))
    try:
        # a window has a least width, a device has not
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        found.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
        yield found
    finally:
        found.quit()


def asked(page: Any) -> set[str]:
    """The addresses that a page asked for since the last call, without those inside the browser."""
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    urls = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    return {url for url in urls if not url.startswith(("data:", "chrome:", "blob:"))}


def wait(condition: Callable[[], Any], what: str) -> Any:
    """Wait until something is there; the page may be drawn anew in between."""
    from selenium.common.exceptions import WebDriverException

    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except WebDriverException:
            pass
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


@contextmanager
def studio(folder: Path, *options: str) -> Iterator[str]:
    """A studio as a user starts it; -> its address."""
    words = [sys.executable, "-c", RUN, "studio", "--port", "0", "--threads", "1", *options]
    with (folder / "studio.log").open("w+") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        try:
            found = wait(lambda: address(process, folder / "studio.log"), "the studio")
            yield found
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:  # a thread of the server hangs, or the machine is very busy
                process.kill()
                process.wait()


def address(process: Any, log: Path) -> str | None:
    text = log.read_text()
    assert process.poll() is None, text
    found = re.search(r"http://127\.0\.0\.1:\d+", text)
    return found[0] if found else None

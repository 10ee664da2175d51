"""A headless Chromium, driven over its DevTools protocol: one for all tests, a tab for each."""

import asyncio
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

WINDOW = {"width": 1280, "height": 900}

_KEYS = {
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "Delete": 46,
    "Tab": 9,
    "Escape": 27,
    "Enter": 13,
}
_COMMANDS = {"a": ["selectAll"]}
"""What a browser does itself with Control and a key, which the protocol must be told."""


class Page:
    """One tab; `complaints` are its console errors, exceptions, and what its policy refused."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.session: str | None = None
        self._socket = socket
        self._numbers = itertools.count(1)
        self._loaded = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            reply = json.loads(message.data)
            if "id" in reply:
                self._waiting.pop(reply["id"]).set_result(reply)
                continue
            method, given = reply["method"], reply["params"]
            if method == "Page.loadEventFired":
                self._loaded.set()
            elif method == "Network.requestWillBeSent":
                self.requests.append(given["request"]["url"])
            elif method == "Runtime.exceptionThrown" or (
                method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning")
            ):
                self.complaints.append(json.dumps(given))
            elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
                self.complaints.append(given["entry"]["text"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        answer = self._waiting[number]
        await self._socket.send_json(message)
        reply = await asyncio.wait_for(answer, 30)
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    async def open(self, file: Path) -> None:
        self._loaded.clear()
        await self.call("Page.navigate", url=file.as_uri())
        await asyncio.wait_for(self._loaded.wait(), 30)

    async def reload(self) -> None:
        self._loaded.clear()
        await self.call("Page.reload")
        await asyncio.wait_for(self._loaded.wait(), 30)

    async def ask(self, expression: str) -> Any:
        reply = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    async def press(self, *keys: str, control: bool = False, alt: bool = False) -> None:
        for key in keys:
            # The code of a quotation mark would be that of Page Down.
            code = _KEYS.get(key, ord(key[0].upper()) if key.isalnum() else 0)
            given = {"key": key, "windowsVirtualKeyCode": code, "modifiers": alt + 2 * control}
            text = {} if key in _KEYS or control else {"text": key}
            command = {"commands": _COMMANDS.get(key, [])} if control else {}
            await self.call("Input.dispatchKeyEvent", type="keyDown", **given, **text, **command)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    async def click(self, selector: str) -> None:
        place = await self.ask(
            f"(() => {{ const n = document.querySelector({json.dumps(selector)});"
            "n.scrollIntoView({block: 'center'}); const r = n.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    async def export(self, file: Path) -> Path:
        """Click on Export; return the downloaded file, whose name may be a pattern."""
        await self.click("#export")
        for _ in range(100):
            # Chromium takes the name before it writes.
            found = await asyncio.to_thread(
                lambda: [one for one in file.parent.glob(file.name) if one.stat().st_size]
            )
            if found:
                return found[0]
            await asyncio.sleep(0.05)
        raise AssertionError(await self.ask("at('status').textContent"))

    async def check(self) -> None:
        """Check that nothing complained, was asked for elsewhere, or ran that is a text."""
        assert self.complaints == []
        own = ("file:", "blob:", "about:", "data:")
        assert [url for url in self.requests if not url.startswith(own)] == []
        assert await self.ask("window.broken ?? 0") == 0

    async def close(self) -> None:
        await self._socket.close()
        await self._reader


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Start Chromium with a profile under `folder`; the address of its protocol."""
    assert CHROMIUM is not None
    profile = folder / "profile"
    process = subprocess.Popen(
        [
            CHROMIUM,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-background-networking", "--window-size=1280,900"),
            *("--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 60
        port_file = profile / "DevToolsActivePort"
        while not (port_file.is_file() and port_file.read_text("utf-8").count("\n")):
            assert process.poll() is None, "chromium ended"
            assert time.monotonic() < end, "chromium does not listen"
            time.sleep(0.02)
        port, path = port_file.read_text("utf-8").split("\n")[:2]
        yield f"ws://127.0.0.1:{port}{path}"
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def tab(address: str, folder: Path) -> AsyncIterator[Page]:
    """Open a tab that shares no storage with any other; its downloads go to `folder`.

    In the end, the page is checked.
    """
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(address, max_msg_size=0) as socket,
    ):
        page = Page(socket)
        context = (await page.call("Target.createBrowserContext"))["browserContextId"]
        target = await page.call(
            "Target.createTarget", url="about:blank", browserContextId=context, **WINDOW
        )
        await page.call(
            "Browser.setDownloadBehavior",
            behavior="allow",
            downloadPath=str(folder),
            browserContextId=context,
        )
        attached = await page.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        page.session = attached["sessionId"]
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.call(f"{domain}.enable")
            yield page
            await page.check()
        finally:
            page.session = None
            await page.call("Target.disposeBrowserContext", browserContextId=context)
            await page.close()

"""A headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

__all__ = ["CHROMIUM", "Page", "browser"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

_KEYS = {
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "Delete": 46,
    "Tab": 9,
    "Escape": 27,
}


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
            told = json.loads(message.data)
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
                continue
            method, given = told["method"], told["params"]
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
        told = await asyncio.wait_for(answer, 30)
        assert "error" not in told, told
        result: dict[str, Any] = told["result"]
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
        """Return what an expression is in the page."""
        told = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def press(self, *keys: str, control: bool = False) -> None:
        for key in keys:
            # The code of a quotation mark would be that of Page Down.
            code = _KEYS.get(key, ord(key[0].upper()) if key.isalnum() else 0)
            given = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 2 if control else 0}
            text = {} if key in _KEYS or control else {"text": key}
            await self.call("Input.dispatchKeyEvent", type="keyDown", **given, **text)
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

    async def close(self) -> None:
        await self._socket.close()
        await self._reader


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """Start Chromium with a profile of its own under `folder`; downloads go to `folder`."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--no-first-run", "--disable-background-networking", "--window-size=1280,900"),
        *("--remote-debugging-port=0", f"--user-data-dir={folder / 'profile'}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while True:
                line = (await process.stderr.readline()).decode()
                assert line, "chromium ended"
                if "listening on " in line:
                    break
        drain = asyncio.create_task(process.stderr.read())
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(line.split("listening on ")[1].strip(), max_msg_size=0) as socket,
        ):
            page = Page(socket)
            target = await page.call("Target.createTarget", url="about:blank")
            attached = await page.call(
                "Target.attachToTarget", targetId=target["targetId"], flatten=True
            )
            await page.call(
                "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder)
            )
            page.session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.call(f"{domain}.enable")
            yield page
            await page.close()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    await drain

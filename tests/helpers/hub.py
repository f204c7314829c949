"""A stand-in for the Hugging Face Hub on loopback: repositories of small files in memory."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub(BaseHTTPRequestHandler):
    """The few calls that creating a repository, committing to it and downloading a file make."""

    repositories: dict[str, dict[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = self.path.split("?")[0].strip("/").split("/")
        if self.path == "/api/repos/create":
            found = json.loads(body)
            name = f"{found.get('organization') or 'me'}/{found['name']}"
            self.repositories.setdefault(name, {})
            return self.answer({"url": f"http://{self.headers['Host']}/{name}"})
        if self.path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        name, action = "/".join(parts[2:4]), parts[4]
        if action == "preupload":
            files = [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in json.loads(body)["files"]]
            return self.answer({"files": files})
        for line in body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                self.repositories[name][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        address = f"http://{self.headers['Host']}/{name}/commit/{'0' * 40}"
        return self.answer({"commitUrl": address, "commitOid": "0" * 40})

    def do_GET(self) -> None:
        if self.path.startswith("/api/whoami"):
            return self.answer({"name": "me"})
        owner, name, *_, path = self.path.split("?")[0].strip("/").split("/")
        data = self.repositories.get(f"{owner}/{name}", {}).get(path)
        if data is None:
            missing = "EntryNotFound" if f"{owner}/{name}" in self.repositories else "RepoNotFound"
            return self.answer({"error": missing}, 404, {"X-Error-Code": missing})
        etag = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": "0" * 40}
        return self.answer(data, 200, etag)

    do_HEAD = do_GET  # noqa: N815

    def answer(self, found: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hub() -> Iterator[tuple[str, dict[str, dict[str, bytes]]]]:
    """Its address and its repositories, while the server runs."""
    repositories: dict[str, dict[str, bytes]] = {}
    handler = type("Handler", (Hub,), {"repositories": repositories})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", repositories
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A Hub that answers with garbage, or hangs up: one line, in a bounded time."""

from __future__ import annotations

import contextlib
import http.server
import os
import socket
import subprocess
import sys
import threading

import pytest
from huggingface_hub import constants

from lingraft import hub as our_hub
from lingraft.errors import DataError
from lingraft.pretrained.load import load_config

SECONDS = 300
"""For a busy machine; the libraries give up after a few."""


class Garbage(http.server.BaseHTTPRequestHandler):
    """Says that every file is there, and sends something else."""

    def do_GET(self):
        body = b"<html>garbage"
        self.send_response(200)
        headers = {"Content-Length": len(body), "ETag": '"x"', "X-Repo-Commit": "a" * 40}
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_GET

    def log_message(self, *arguments):
        pass


class Closes(Garbage):
    """Hangs up without a word."""

    def do_GET(self):
        self.close_connection = True

    do_HEAD = do_POST = do_GET


@contextlib.contextmanager
def hub(handler):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("handler", [Garbage, Closes])
def test_a_broken_hub_is_one_line(handler, korean_text, tmp_path):
    arguments = ["evaluate", "FacebookAI/roberta-base", "--text", str(korean_text)]
    with hub(handler) as address:
        answers = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
        ended = subprocess.run(
            [sys.executable, "-m", "lingraft", *arguments],
            env=os.environ | answers,
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    said = ended.stderr.splitlines()[-1]
    assert said.startswith("lingraft: source model 'FacebookAI/roberta-base' cannot be loaded: ")


def test_a_hub_that_accepts_and_never_answers_is_one_line(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(our_hub, "SECONDS", 0.2)
        our_hub.check_answers.cache_clear()  # another test may have asked
        with pytest.raises(DataError, match="does not answer"):
            load_config("someone/some-model")

"""Runs `recap study serve` in a process of its own."""

import csv
import os
import signal
import socket
import subprocess
import sys
import time

import requests


class StudyServer:
    """The server of a study in a folder; `links` leads from a sheet to the address of its form."""

    def __init__(self, study, folder):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [
            sys.executable,
            "-m",
            "recap",
            "study",
            "serve",
            "--sheets",
            str(study.folder / "sheets.json"),
        ]
        self.command += [
            "--responses",
            str(folder / "server.sqlite"),
            "--links",
            str(folder / "links.csv"),
        ]
        self.command += ["--port", str(self.port)]
        self.start()

    def start(self):
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                requests.get(f"http://127.0.0.1:{self.port}/", timeout=5)
                break
            except requests.ConnectionError:
                assert self.process.poll() is None, self.log()
                assert time.monotonic() < deadline
                time.sleep(0.1)
        with (self.folder / "links.csv").open() as file:
            self.links = {line["sheet"]: line["link"] for line in csv.DictReader(file)}

    def send(self, response, **options):
        """Send a response as its page does."""
        link = options.pop("link", self.links[response.sheet])
        headers = {"Content-Type": "application/json", **options.pop("headers", {})}
        return requests.post(
            link, data=response.content().encode(), headers=headers, timeout=60, **options
        )

    def stop(self, number=signal.SIGTERM):
        os.killpg(self.process.pid, number)
        self.process.wait(30)

    def log(self):
        """Return what the server has printed."""
        return (self.folder / "log").read_text()

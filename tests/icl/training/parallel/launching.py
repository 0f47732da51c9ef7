"""Two processes on this machine that run one module of tests."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def together(folder, *options, module="two", package="tests.icl.training.parallel"):
    """What two processes of a module, by default one beside this, leave there, by process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, "-m", f"{package}.{module}", str(folder), *options]
    both = [
        subprocess.Popen(command, cwd=ROOT, env={**common, "RANK": f"{rank}"}, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [process.communicate(timeout=1200)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert not any("Warning" in text for text in said), said
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]

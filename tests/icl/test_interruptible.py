"""Compiled code that takes long does not keep a signal waiting."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from icl.interruptible import interruptible


def test_what_it_returns_and_raises_is_the_work_s():
    assert interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


def test_who_waits_hears_of_it():
    waits = []
    interruptible(lambda: time.sleep(0.5), waits.append)
    assert waits == sorted(waits)
    assert 0 < waits[0] < waits[-1] < 0.6


def test_in_another_thread_the_work_is_done_there():
    threads = []
    thread = threading.Thread(target=lambda: interruptible(lambda: threads.append(threading.current_thread())))
    thread.start()
    thread.join()
    assert threads == [thread]


def test_a_signal_is_raised_meanwhile():
    """A wait that is no Python goes on after a handler that does not raise, and so does the work."""
    released = threading.Event()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: released.wait(20))
    released.set()
    assert time.monotonic() - began < 5


TRAINING = """
import random, sys
from icl.data.tokenizers import train_bpe
text = "".join(random.Random(0).choices("ACGT", k=3_000_000))
train_bpe([text], 4096, lambda seconds: print("trains", flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.long
def test_a_tokenizer_s_training_ends_with_the_process(number):
    script = f"import signal; signal.signal(signal.SIGTERM, signal.default_int_handler)\n{TRAINING}"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout.readline() == b"trains\n"
        process.send_signal(number)
        began = time.monotonic()
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert time.monotonic() - began < 2
    assert process.returncode in (1, 130, -signal.SIGINT)

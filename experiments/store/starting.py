"""Processes that start others import the script that started them; one without a guard would start more, and so on."""

from __future__ import annotations

import os
import sys

UNGUARDED = 77  # status of a process that ends as it would start processes while it starts itself
ADVICE = (
    'the script must start its work below `if __name__ == "__main__":`, '
    "as the processes that share the work import it again"
)


def unreadable_script() -> str | None:
    """Return one line if processes cannot import the script that starts them, as one from standard input; else None."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is None or getattr(main, "__spec__", None) is not None or os.path.exists(file):
        return None
    return f"the script {file} is no file: save it as one, as the processes that share the work import it again"


def leave_if_starting() -> None:
    """End this process, silently, if it runs a script's work while it only imports the script to start."""
    library = sys.modules.get("multiprocessing.process")  # not imported for this: it takes time, and a child has it
    if library and getattr(library.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)

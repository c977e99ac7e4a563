# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs tests/integration/jobs.py in a cell of a Jupyter kernel, on this process's own standard input
and output. Needs ipykernel and jupyter_client."""
import os
import sys

from jupyter_client.manager import start_new_kernel

JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration")
CELL = """
import os, sys
os.dup2(os.open("/proc/{pid}/fd/0", os.O_RDONLY), 0)
os.dup2(os.open("/proc/{pid}/fd/1", os.O_WRONLY), 1)
sys.path.insert(0, {jobs!r})
import jobs
jobs.main()
"""


def main():
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        reply = client.execute_interactive(CELL.format(pid=os.getpid(), jobs=JOBS), store_history=False)
    finally:
        manager.shutdown_kernel(now=True)
    print(reply["content"].get("traceback", ""), file=sys.stderr)
    return 0 if reply["content"]["status"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())

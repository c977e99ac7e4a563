# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""All scenarios, in the order in which they run."""
import cases_cpu  # noqa: F401
import cases_storage  # noqa: F401
import cases_waits  # noqa: F401
import cases_process  # noqa: F401
import cases_healthy  # noqa: F401
import cases_mixed  # noqa: F401
import cases_hard  # noqa: F401
import cases_gc  # noqa: F401
from registry import SCENARIOS  # noqa: F401

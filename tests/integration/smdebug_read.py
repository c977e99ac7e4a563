# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs SageMaker's Debugger's own analysis of data loading on a folder; prints what it says, as JSON.

usage: smdebug_read.py DIR    with a Python that has smdebug: tests/deps.sh smdebug
"""
import json
import sys

# it prints what it finds, and logs to stdout from its import on
OUT, sys.stdout = sys.stdout, sys.stderr

from smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame  # noqa: E402
from smdebug.profiler.analysis.utils.pytorch_dataloader_analysis import \
    PT_dataloader_analysis  # noqa: E402


def rows(frame):
    return [] if frame is None else json.loads(frame.to_json(orient="records"))


def main():
    frame = PandasFrame(sys.argv[1])
    analysis = PT_dataloader_analysis(frame)
    analysis.analyze_dataloaderIter_initialization()
    durations = analysis.dataIter_metric["duration_us"]
    json.dump({
        "calls": rows(analysis.dataIter_metric),
        "median_us": float(durations.median()),
        "max_us": float(durations.max()),
        "outliers": rows(analysis.analyze_dataloader_getnext()),
        "inits": rows(analysis.initialize_metric),
        "workers": rows(analysis.dataWorker_metric),
        "worker_outliers": rows(analysis.analyze_dataloaderWorkers()),
        "batch_outliers": rows(analysis.analyze_batchtime()),
        "system": rows(frame.get_all_system_metrics()),
    }, OUT)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page of `report --html` in a real browser: it draws without trouble, and says what the summary says.
The picture of `report --svg`: what it draws stands where the report says that it was."""
import html.parser
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree

from harness import Failed, Skip, group

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
LOADER = {"num_workers": 2, "n": 400, "batch": 4, "work": {"kind": "uneven", "ms": 1}}


class Page(html.parser.HTMLParser):
    """Text of the elements that have an id, and the attributes of all elements."""

    def __init__(self, text):
        super().__init__()
        self.inside, self.text, self.attributes = [], {}, {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in ("meta", "br", "img", "link", "input"):
            self.inside.append(attrs.get("id"))
        self.attributes[attrs.get("id", tag)] = attrs

    def handle_endtag(self, tag):
        if self.inside:
            self.inside.pop()

    def handle_data(self, data):
        for name in filter(None, self.inside):
            self.text[name] = self.text.get(name, "") + data


def open_page(env, path):
    """The page's elements once its script has run."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        raise Skip("no Chromium found (apt install chromium)")
    run = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=5000",
         f"--user-data-dir={os.path.join(env.folder, 'browser')}", f"file://{path}"],
        capture_output=True, text=True, timeout=120)
    if run.returncode or not run.stdout:
        raise Failed(f"{browser} ended with {run.returncode}: {run.stderr[-500:]}")
    return Page(run.stdout)


def picture(env, recording):
    """A part of the run, whose calls all stand for themselves."""
    tap, path = env.tap, os.path.join(env.folder, "part.svg")
    run = subprocess.run([env.tool, "report", recording, "--from", "1", "--to", "1.5", "--svg", path, "--section",
                          "getnext", "--json", "-"], capture_output=True, text=True, timeout=60)
    if run.returncode:
        raise Failed(run.stderr)
    report = json.loads(run.stdout)
    getnext, selection = report["sections"]["getnext"], report["selection"]
    texts, bars = [], []
    for element in xml.etree.ElementTree.parse(path).iter():
        if element.tag.endswith("}text"):
            texts.append(element.text)
        if element.get("class") == "outlier" and not bars and element.tag.endswith("}path"):
            bars = [float(x) for x in re.findall(r"M([0-9.]+)", element.get("d"))]
    count, outliers = getnext["loaders"][0]["count"], getnext["outliers"]
    tap.check(count > 20 and any(f": {count} calls" in text and text.endswith(f" {len(outliers)} outliers")
                                 for text in texts), "the picture has the report's figures", count, len(outliers), texts)
    span = selection["to_ns"] - selection["from_ns"]
    wanted = [12 + 936 * (e["start_ns"] - selection["from_ns"]) / span for e in outliers]
    missing = [x for x in wanted if x > 12 and not any(abs(x - bar) < 1 for bar in bars)]
    tap.check(outliers and not missing, "the picture's outliers stand where the report's are", missing, bars)


@group("page")
def page(env):
    tap, session = env.tap, env.session()
    recording, path = (os.path.join(env.folder, name) for name in ("page.dlp", "page.html"))
    with session.phase("steady", loader=LOADER, step={"ms": 2}):
        summary = env.observe(session.pid, "--record", recording, duration=3).need_summary().summary
    run = subprocess.run([env.tool, "report", recording, "--html", path], capture_output=True, text=True, timeout=60)
    tap.check(run.returncode == 0 and os.path.getsize(path) < 2e6, "report writes a page", run.stderr)
    picture(env, recording)
    opened = open_page(env, path)
    tap.check(opened.attributes["html"].get("data-drawn-ms") and "hidden" in opened.attributes["trouble"],
              "the page draws everything", opened.text.get("trouble"))
    verdict = summary["verdict"]
    exposed = verdict["exposed_wait_ratio"] + verdict["startup_ratio"]
    tap.same(opened.text["exposed"], f"{exposed * 100:.1f} %", "the share of waiting is the summary's")
    tap.same(opened.text["batches"], f"{sum(loader['batches'] for loader in summary['loaders']):,}",
             "the batches are the summary's")
    tap.check(verdict["text"] in opened.text["verdict"], "the verdict is the summary's", opened.text["verdict"])
    outliers = max(len(loader["getnext"]["outliers"]) for loader in summary["loaders"])
    tap.check(int(opened.text["outliers"].replace(",", "")) >= outliers, "the summary's outliers are among the page's",
              opened.text["outliers"], outliers)

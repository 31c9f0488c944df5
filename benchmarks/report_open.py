"""Size, build time and opening time of a report of many nodes, in Debian's Chromium.

    python benchmarks/report_open.py [--nodes 20000] [--run RUN]

Without a run it fits a block model of so many nodes for two epochs in top-k mode. Opening is timed
from the start of the navigation to the moment the map is on its canvas, three times in a new tab,
once the browser itself is up.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from xtcl import XTCL, block_model, node_split
from xtcl.report.page import write_page

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1200,900"
)
DRAWN = """
const done = arguments[0];
const look = () => document.getElementById("map-canvas").dataset.drawn
  ? requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0))
  : setTimeout(look, 5);
look();
"""


def fitted(nodes: int) -> XTCL:
    """A quick fit of a graph of so many nodes."""
    graph = block_model(nodes, num_classes=5, num_attributes=32, seed=0)
    model = XTCL(epochs=2, width=32, cap=16, device="cpu")
    return model.fit(graph, node_split(graph, 0.1, seed=0))


def opening(page: Path, profile: Path) -> list[float]:
    """Seconds until the map is drawn."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    browser = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    seconds = []
    try:
        for _ in range(3):
            browser.switch_to.new_window("tab")
            browser.get(page.as_uri())
            seconds.append(float(browser.execute_async_script(DRAWN)) / 1000)
    finally:
        browser.quit()
    return seconds


def main() -> None:
    """Build the page, and open it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--nodes", type=int, default=20_000)
    options.add_argument("--run", type=Path, help="the folder of a run, in place of a block model")
    chosen = options.parse_args()
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        options.exit(0, "This needs Chromium: install chromium and chromium-driver.\n")
    model = fitted(chosen.nodes) if chosen.run is None else XTCL.load(chosen.run)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        start = time.perf_counter()
        write_page(model, page)
        built = time.perf_counter() - start
        seconds = opening(page, Path(folder) / "profile")
        size = page.stat().st_size
    print(f"nodes                {len(model.embedding_):>8,}")
    print(f"file                 {size / 1e6:8.2f} MB")
    print(f"built in             {built:8.2f} s")
    print(f"drawn in the browser {median(seconds):8.2f} s (of {len(seconds)} openings)")


if __name__ == "__main__":
    main()

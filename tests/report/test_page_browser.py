"""The page in a real browser: Debian's Chromium, without a network."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from page_runs import HOSTILE, hostile_fit

from xtcl.report.facts import escape_text
from xtcl.report.node_map import MAP_SIZE
from xtcl.report.page import render, summarise

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no Chromium here: install chromium and chromium-driver to test the page in a browser",
)
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1200,900"
)
MARGIN = 14
"""Of the map, in pixels."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver: Any = Chrome(options=options, service=Service(str(DRIVER)))
    driver.get("about:blank")
    driver.get_log("performance")  # what the browser's own first page asked for
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr("xtcl.sampling.weights.RESAMPLES", 5)
        for task in ("nodes", "links"):
            (folder / f"{task}.html").write_text(
                render(summarise(hostile_fit(task))), encoding="utf-8"
            )
    return folder


@pytest.fixture
def page(browser: Any, pages: Path) -> Iterator[Any]:
    """The page for nodes, opened from the disk; afterwards nothing was loaded or complained of."""
    browser.get((pages / "nodes.html").as_uri())
    yield browser
    _check_quiet(browser)


def _check_quiet(browser: Any) -> None:
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert all(url.startswith(("file:", "data:")) for url in asked), asked


def _canvas(browser: Any) -> str:
    return str(browser.execute_script("return document.getElementById('map-canvas').toDataURL()"))


def _find(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def _tells_of(browser: Any, tip: Any, name: str) -> bool:
    label = browser.execute_script("return arguments[0].firstChild?.textContent", tip)
    return bool(tip.is_displayed() and label == name)


def _soon(browser: Any, holds: Callable[[], bool]) -> None:
    """Wait for what the page does in its next frames."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 10, poll_frequency=0.05).until(lambda _: holds())


@pytest.mark.slow
def test_every_colour_draws_another_map(page: Any) -> None:
    assert _find(page, "#map-canvas").get_attribute("data-drawn") == "80"
    assert not _find(page, "#map-still").is_displayed()
    seen = []
    for name in ("class", "prediction", "confidence", "error"):
        _find(page, f"#map-colour input[value={name}] + span").click()
        assert _find(page, "#map-canvas").get_attribute("data-mode") == name
        assert _find(page, "#map-legend").text
        seen.append(_canvas(page))
    assert len(set(seen)) == 4
    _find(page, "#map-in").click()
    assert _canvas(page) not in seen
    _find(page, "#map-whole").click()
    assert _canvas(page) == seen[-1]


@pytest.mark.slow
def test_a_node_shows_its_id_as_text(page: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    data = json.loads(_find(page, "#map-data").get_attribute("textContent"))
    canvas, tip = _find(page, "#map-canvas"), _find(page, "#map-tip")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    width, height = canvas.size["width"], canvas.size["height"]
    for node in range(len(HOSTILE)):
        x = MARGIN + data["x"][node] / MAP_SIZE * (width - 2 * MARGIN) - width / 2
        y = MARGIN + (1 - data["y"][node] / MAP_SIZE) * (height - 2 * MARGIN) - height / 2
        ActionChains(page, 0).move_to_element_with_offset(canvas, round(x), round(y)).perform()
        _soon(page, partial(_tells_of, page, tip, escape_text(HOSTILE[node])))
    assert "Predicted: " in tip.text
    assert "Positives: " in tip.text or "No positives" in tip.text
    assert not tip.find_elements("css selector", "script, img")


@pytest.mark.slow
def test_a_node_is_found_and_keys_go_on_from_it(page: Any) -> None:
    tip = _find(page, "#map-tip")
    _find(page, "#map-find").send_keys("n17")
    assert tip.text.startswith("n17")
    _find(page, "#map-canvas").send_keys("\ue014")  # the right arrow
    assert tip.is_displayed()
    assert not tip.text.startswith("n17\n")
    _find(page, "#map-find").send_keys(" nobody")
    assert not tip.is_displayed()
    assert "none" in _find(page, "#map-find").get_attribute("class")


@pytest.mark.slow
def test_dark_print_and_narrow(page: Any) -> None:
    def media(**wanted: object) -> None:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    def paper() -> str:
        return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))

    light = paper()
    before = _canvas(page)
    media(features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert paper() != light
    _soon(page, lambda: _canvas(page) != before)
    media(media="print")
    assert paper() == "rgb(255, 255, 255)"
    assert _find(page, "#map-still img").is_displayed()
    assert not _find(page, "#map-live").is_displayed()
    # A page ends between two rows: tables kept whole would leave pages half empty.
    style = "return getComputedStyle(document.querySelector(arguments[0])).breakInside"
    broken = [page.execute_script(style, part) for part in (".weights", ".matrix", ".matrix tr")]
    assert broken == ["auto", "auto", "avoid"]
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    media(media="")
    page.set_window_size(420, 900)
    wide = page.execute_script("return document.documentElement.scrollWidth - innerWidth")
    page.set_window_size(1200, 900)
    assert wide <= 0  # nothing sticks out on a telephone


@pytest.mark.slow
def test_links_and_a_browser_without_script(browser: Any, pages: Path) -> None:
    browser.get((pages / "links.html").as_uri())
    assert _find(browser, "#map-canvas").get_attribute("data-mode") == "links"
    assert "On held-out links" in _find(browser, "main").text
    assert browser.get_screenshot_as_png().startswith(b"\x89PNG")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get((pages / "nodes.html").as_uri())
        assert _find(browser, "#map-still img").is_displayed()
        assert not _find(browser, "#map-live").is_displayed()
        assert "Confidently wrong" in _find(browser, "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    _check_quiet(browser)

"""The page in a real browser: headless Chromium opens it from disk, clicks through it, sorts and searches.

BOOSTFEAT_SHOTS names a folder for screenshots of every tab, light and dark, at 1280 and 390 pixels.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from synthetic import SyntheticOptions, synthetic_nbest
from test_report import NASTY, SETS, make_run, nasty

from boostfeat.report import write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: pip install 'boostfeat[test]'")

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
TABS = ("results", "curves", "trees", "features", "duels", "buckets", "lengths", "sentences", "experiments", "reproduce")
SHOTS = os.environ.get("BOOSTFEAT_SHOTS")
INTERACTIVE = 2000  # ms, of a page of 1,000 sentences


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """A test set of 1,000 sentences with markup in every kind of text; BOOSTFEAT_PAGE names another page to look at."""
    if "BOOSTFEAT_PAGE" in os.environ:
        return Path(os.environ["BOOSTFEAT_PAGE"])
    lists = {w: synthetic_nbest(SyntheticOptions(sentences=80, hyps=15), seed=k) for k, w in enumerate(SETS)}
    lists["test"] = synthetic_nbest(SyntheticOptions(sentences=1000, hyps=15), seed=9)
    folder = make_run(tmp_path_factory.mktemp("browser") / "run", {w: nasty(nb) for w, nb in lists.items()})
    write_report(folder, folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("no chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    driver.set_window_size(1280, 900)
    yield driver
    driver.quit()


@pytest.fixture
def opened(chromium, page):
    """The page, freshly opened; at the end, no errors on the console and no request but for the page itself."""
    chromium.get("about:blank")
    chromium.get_log("browser")
    chromium.get_log("performance")
    chromium.get(page.as_uri())
    wait(chromium, "return document.documentElement.dataset.ready")
    yield chromium
    asked = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in asked if m["method"] == "Network.requestWillBeSent"]
    assert {url.partition("#")[0] for url in urls if not url.startswith(("data:", "blob:"))} == {page.as_uri()}
    assert (
        chromium.execute_script(
            "return performance.getEntriesByType('resource').filter(e => !/^(data|blob):/.test(e.name)).length"
        )
        == 0
    )
    assert [entry["message"] for entry in chromium.get_log("browser")] == []


def wait(driver, script: str, *arguments, seconds: float = 10):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, seconds, poll_frequency=0.02).until(lambda d: d.execute_script(script, *arguments))


def click(driver, selector: str) -> None:
    element = driver.find_element("css selector", selector)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def open_tab(driver, name: str) -> None:
    click(driver, f"#tab-{name}")
    wait(driver, "return !document.getElementById(arguments[0]).hidden", name)


VISIBLE_PLOTS = """
return [...document.querySelectorAll('.plot')].filter(p => {
  const r = p.getBoundingClientRect();
  return p.offsetParent && r.top < innerHeight && r.bottom > 0;
}).every(p => p.querySelector('.main-svg'))"""


def test_interactive_soon(opened):
    """From the start of the navigation to the answer to a click: the sentence browser, which unpacks all its data first."""
    assert opened.execute_script("return document.querySelector('#table-results tbody').rows.length") > 0
    answer = """
      const done = arguments[arguments.length - 1];
      document.getElementById('tab-sentences').click();
      (function look() { document.querySelector('#detail h3') ? done(performance.now()) : setTimeout(look, 2); })();
    """
    ready = int(opened.execute_script("return document.documentElement.dataset.ready"))
    answered = opened.execute_async_script(answer)
    print(f"ready after {ready} ms, sentences shown after {answered:.0f} ms")
    assert ready < INTERACTIVE
    assert answered < INTERACTIVE


def test_every_tab_draws(opened):
    for name in TABS:
        if not opened.find_elements("id", f"tab-{name}"):
            continue
        open_tab(opened, name)
        wait(opened, VISIBLE_PLOTS)
        shown = opened.execute_script(
            "return [...document.querySelectorAll('[role=tabpanel]')].filter(p => !p.hidden).map(p => p.id)"
        )
        assert shown == [name]
        assert opened.execute_script("return document.documentElement.scrollWidth <= innerWidth"), (
            f"{name} is wider than the window"
        )
    assert opened.execute_script("return location.hash") == "#reproduce"


def test_arrow_keys_move_between_tabs(opened):
    from selenium.webdriver.common.keys import Keys

    open_tab(opened, "results")
    opened.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert opened.switch_to.active_element.get_attribute("id") == "tab-reproduce"
    opened.switch_to.active_element.send_keys(Keys.HOME)
    assert opened.switch_to.active_element.get_attribute("aria-selected") == "true"
    assert opened.switch_to.active_element.get_attribute("id") == "tab-results"


def test_table_sorts(opened):
    def column(k: int) -> list[str]:
        script = (
            "return [...document.querySelector('#table-results').tBodies[0].rows].map(r => r.cells[arguments[0]].textContent)"
        )
        return opened.execute_script(script, k)

    given = column(3)
    click(opened, "#table-results thead tr:last-child th:nth-child(4) button")
    assert column(3) == sorted(given, key=float, reverse=True)
    click(opened, "#table-results thead tr:last-child th:nth-child(4) button")
    assert column(3) == sorted(given, key=float)
    click(opened, "#table-results thead tr:last-child th:nth-child(6) button")
    assert column(5)[-1] == "–"  # the linear row has no difference to itself
    click(opened, "#table-results thead tr:last-child th:nth-child(1) button")
    assert column(0) == sorted(column(0))


LIST = "return [...document.querySelector('#table-sentences').tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent))"


def numbers(rows: list[list[str]], k: int) -> list[float]:
    return [float(row[k].replace("−", "-")) for row in rows]


def test_sentences_sort_page_and_search(opened):
    open_tab(opened, "sentences")
    rows = wait(opened, LIST)
    total = int(opened.find_element("id", "found").text.split(" of ")[1].split()[0].replace(",", ""))
    assert len(rows) == min(50, total)
    click(opened, "[data-key=delta]")
    rising = numbers(opened.execute_script(LIST), 5)
    assert rising == sorted(rising)
    click(opened, "[data-key=delta]")
    falling = numbers(opened.execute_script(LIST), 5)
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > 0 > rising[0]
    if total > 50:
        click(opened, "#next")
        assert opened.execute_script(LIST) != rows
        assert opened.find_element("id", "page").text.startswith("page 2 of")
    click(opened, "#changed")
    click(opened, "#table-sentences tbody tr:nth-child(1)")
    assert opened.find_elements("css selector", "#detail ins, #detail del")
    assert opened.find_elements("css selector", "#detail .unit")
    click(opened, "#changed")
    word = opened.execute_script(LIST)[3][6].split()[0]
    opened.find_element("id", "search").send_keys(word.upper())
    wait(opened, "return !document.getElementById('found').textContent.startsWith(arguments[0])", f"{total:,} of")
    found = int(opened.find_element("id", "found").text.split()[0].replace(",", ""))
    assert 0 < found < total
    assert word.lower() in opened.find_element("id", "detail").text.lower()
    opened.find_element("id", "search").send_keys(" no such words zzz")
    wait(opened, "return document.getElementById('found').textContent.startsWith('0 of')")


def test_a_dot_opens_its_sentence(opened):
    open_tab(opened, "duels")
    wait(opened, VISIBLE_PLOTS)
    opened.execute_script("const d = document.querySelector('[data-figure=duel-0]'); d.scrollIntoView()")
    wait(
        opened,
        "return document.querySelector('[data-figure=duel-0]').dataset.drawn && document.querySelector('[data-figure=duel-0] .main-svg')",
    )
    opened.execute_script("document.querySelector('[data-figure=duel-0]').emit('plotly_click', {points: [{customdata: 57}]})")
    wait(opened, "return document.querySelector('#detail h3')")
    selected = opened.execute_script("return document.querySelector('#table-sentences tr[aria-selected=true]').dataset.k")
    assert selected == "57"


def test_markup_in_the_data_does_nothing(opened, page):
    if "BOOSTFEAT_PAGE" in os.environ:
        pytest.skip("another page has no markup in its data")
    open_tab(opened, "sentences")
    wait(opened, LIST)
    opened.find_element("id", "search").send_keys("alert(1)")
    wait(opened, "return document.querySelector('#detail mark')")
    assert NASTY in opened.find_element("id", "detail").text
    assert opened.execute_script("return document.querySelectorAll('main script').length") == 0
    from selenium.common.exceptions import NoAlertPresentException

    with pytest.raises(NoAlertPresentException):
        _ = opened.switch_to.alert.text


def test_policy_stops_what_slips_through(chromium, page):
    """Even markup that got into the page could not run, and could not ask the network. (The console then says so.)"""
    chromium.get(page.as_uri())
    wait(chromium, "return document.documentElement.dataset.ready")
    script = """
      const done = arguments[arguments.length - 1];
      window.hit = 0;
      const s = document.createElement('script'); s.textContent = 'window.hit = 1'; document.body.append(s);
      const b = document.createElement('div'); b.innerHTML = '<img src=x onerror="window.hit = 2">'; document.body.append(b);
      fetch('http://127.0.0.1:9/').then(() => done(['fetched', window.hit]), () => setTimeout(() => done(['refused', window.hit]), 100));
    """
    assert chromium.execute_async_script(script) == ["refused", 0]
    assert any("Content Security Policy" in entry["message"] for entry in chromium.get_log("browser"))


LOOKS = [("light", 1280), ("dark", 390)]
if SHOTS:
    LOOKS += [("dark", 1280), ("light", 390)]


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_looks(opened, theme, width):
    """Every tab fits the window, and the theme follows the system's and the button."""
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:

        def background() -> int:
            return opened.execute_script("return Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")

        opened.execute_script("localStorage.clear(); delete document.documentElement.dataset.theme")
        assert (background() > 128) == (theme == "light")
        click(opened, "#theme")
        assert (background() > 128) == (theme == "dark")
        click(opened, "#theme")
        for name in TABS:
            if not opened.find_elements("id", f"tab-{name}"):
                continue
            open_tab(opened, name)
            wait(opened, VISIBLE_PLOTS)
            assert opened.execute_script("return document.documentElement.scrollWidth") <= width, f"{name} at {width}"
            if SHOTS:
                wait(opened, "return new Promise(r => setTimeout(() => r(true), 350))")
                Path(SHOTS).mkdir(parents=True, exist_ok=True)
                opened.save_screenshot(f"{SHOTS}/{name}-{theme}-{width}.png")
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        opened.execute_script("localStorage.clear()")

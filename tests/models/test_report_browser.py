"""The report in a real browser: chromium, driven by playwright. Skipped where one of them is absent."""

import dataclasses
import io
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from report_data import make_data

from msmtfl import (
    MSMTFLCV,
    LassoMTL,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    NestedMTLCV,
    RobustMTLCV,
    SharedMTLCV,
    compare_models,
)
from msmtfl._estimators.families import known_families
from msmtfl._objective.losses import LOSSES
from msmtfl.report import write_report
from msmtfl.sharing import coef_by_class

for needed in ("bokeh", "jinja2", "matplotlib"):
    pytest.importorskip(needed)
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no chromium on this machine", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.timed]

EVIL = ["<script>alert(1)</script>", "</script><!-- <b>", "$$x$$", "{{ 7 * 7 }}", "n4", "n5"]
EVIL_TASKS = np.array(["</script><img src=x onerror=alert(1)>", "$$t$$", "south"])


@pytest.fixture(scope="module")
def model():
    """Two stages, three tasks, forty features: some shared, some of one task, some unused; a cap that frees."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((90, 40)), np.repeat(["east", "north", "south"], 30)
    y = 3 * X[:, 0] - 2 * X[:, 1] + np.where(task == "north", X[:, 2], 0) + 0.5 * rng.standard_normal(90)
    names = [f"gene {j}" for j in range(40)]
    return MSMTFLCV(lams=8, theta_ratios=[4, np.inf], cv=3).fit(pd.DataFrame(X, columns=names), y, task=task)


@pytest.fixture(scope="module")
def report(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(model, path)
    return path


@pytest.fixture(scope="module")
def evil_report(tmp_path_factory):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((90, 6)), np.repeat(EVIL_TASKS, 30)
    y = X @ [3, -2, 1, 1, 0, 0] + 0.5 * rng.standard_normal(90)
    path = tmp_path_factory.mktemp("evil") / "report.html"
    write_report(MSMTFLCV(lams=6, cv=3).fit(pd.DataFrame(X, columns=EVIL), y, task=task), path)
    return path


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        instance = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield instance
        instance.close()


@pytest.fixture
def visit(browser):
    """Opens a report without a network; what went wrong is in `page.troubles`."""
    contexts = []

    def opened(path, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.troubles = []

        def guard(route):
            if route.request.url.startswith(("file:", "data:")):
                route.continue_()
            else:
                page.troubles.append(f"request: {route.request.url}")
                route.abort()

        page.route("**/*", guard)
        page.on("console", lambda said: page.troubles.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("dialog", lambda dialog: (page.troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_function("document.documentElement.dataset.ready")
            page.wait_for_timeout(100)  # a frame or two, so that canvases are painted
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Of a model and its rows: P1 to P12, a target with a name."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((360, 6)), columns=["dose", "age", "=mass", "sun", "rain", 'a "b", c'])
    X["patient"] = np.repeat([f"P{i + 1}" for i in range(12)], 30)
    y = pd.Series(2 * X["dose"] - X["age"] + 0.5 * rng.standard_normal(360), name="updrs")
    model = MSMTFLCV(task_column="patient", lams=8, cv=3).fit(X, y)
    path = tmp_path_factory.mktemp("patients") / "report.html"
    write_report(model, path, X=X, y=y)
    return model, path


@pytest.fixture(scope="module")
def relapses(tmp_path_factory):
    """Of a classifier and its rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((300, 4)), columns=["dose", "age", "sun", "rain"])
    X["patient"] = np.repeat([f"P{i + 1}" for i in range(3)], 100)
    y = pd.Series(np.where(2 * X["dose"] + rng.logistic(size=300) > 0, "yes", "no"), name="relapse")
    path = tmp_path_factory.mktemp("relapses") / "report.html"
    options = {"lams": 5, "cv": 3, "entry_shares": 0, "theta_ratios": [2]}
    write_report(MSMTFLClassifierCV(task_column="patient", **options).fit(X, y), path, X=X, y=y)
    return path


def column(page, table, place):
    """Texts of a column, of the rows that are shown."""
    return page.evaluate(
        """([table, place]) => [...document.querySelectorAll(`#table-${table} tbody tr`)]
        .filter((row) => row.checkVisibility()).map((row) => row.cells[place].textContent)""",
        [table, place],
    )


def tips_over_the_map(page):
    """What is said of the cells under a mouse that goes down the coefficient map."""
    live = page.locator("#live-map")
    live.scroll_into_view_if_needed()
    box = live.bounding_box()
    tips = set()
    for share in np.linspace(0.1, 0.9, 20):
        page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + share * box["height"])
        page.wait_for_timeout(40)
        if page.locator("#tip").is_visible():
            tips.add(page.locator("#tip").inner_text())
    return tips


def brightness(page, selector):
    """Of an element's background, 0 to 255."""
    colour = page.evaluate("(s) => getComputedStyle(document.querySelector(s)).backgroundColor", selector)
    return np.mean([float(part) for part in re.findall(r"[\d.]+", colour)[:3]])


def test_page_loads_offline_without_a_complaint(report, visit):
    page = visit(report)
    assert page.troubles == []
    assert page.locator("figure.alive").count() == 3
    assert page.locator("figure .still:visible").count() == 0
    assert page.locator("#live-map canvas").count() > 0
    assert page.locator("h1").inner_text() == "What predicts the target in 3 tasks"


def test_slider_moves_with_the_keyboard_and_changes_the_map(model, report, visit):
    assert len(model.stages_) > 1
    page = visit(report)
    said, live = page.locator("#stage-said"), page.locator("#live-map")
    last, picture = said.inner_text(), live.screenshot()
    assert last.startswith(f"Stage {len(model.stages_)} of {len(model.stages_)}")
    free = len(model.stages_[-1].free_rows)
    assert f"{free} feature{'s' * (free != 1)} freed" in last
    page.locator("#stage").focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(100)
    assert said.inner_text().startswith("Stage 1 of")
    assert "0 features freed" in said.inner_text()
    assert f"{np.count_nonzero(model.stages_[0].coef)} coefficients" in said.inner_text()
    assert live.screenshot() != picture
    page.keyboard.press("End")
    page.wait_for_timeout(100)
    assert said.inner_text() == last
    page.locator("#own-scale").check()
    page.wait_for_timeout(100)
    assert live.screenshot() != picture
    page.get_by_role("button", name="Play").click()
    assert said.inner_text().startswith("Stage 1 of")
    page.wait_for_function("(text) => document.getElementById('stage-said').textContent === text", arg=last)
    assert page.troubles == []


def test_mouse_shows_the_coefficient(model, report, visit):
    page = visit(report)
    tips = tips_over_the_map(page)
    assert len(tips) > 2
    for tip in tips:
        feature, task, value = re.fullmatch(r"(gene \d+) in (\w+): (.*)", tip).groups()
        coef = model.coef_[list(model.tasks_).index(task), list(model.features_).index(feature)]
        assert float(value.replace("−", "-")) == pytest.approx(coef, rel=5e-3)
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_a_class_is_chosen_for_the_map(visit, tmp_path):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 4)), np.repeat(["one", "two"], 60)
    X[task == "one", 3] = 0.0
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.5 * rng.standard_normal(120), [-0.5, 0.5])]
    model = MSMTFLClassifier(0.005, np.inf).fit(pd.DataFrame(X, columns=[f"gene {j}" for j in range(4)]), y, task=task)
    write_report(model, tmp_path / "r.html")
    page = visit(tmp_path / "r.html")
    seen = {}
    for place, of_map in (("", np.abs(model.coef_).sum(axis=1)), *((str(k), model.coef_[:, k]) for k in range(3))):
        page.select_option("#class", place)
        page.mouse.move(5, 5)
        seen[place] = tips_over_the_map(page)
        for tip in seen[place]:
            feature, name, value, note = re.fullmatch(r"(gene \d) in (\w+): ([^,]*)(, .*)?", tip).groups()
            i, j = list(model.tasks_).index(name), list(model.features_).index(feature)
            assert float(value.replace("−", "-")) == pytest.approx(of_map[i, j], rel=5e-3, abs=1e-9)
            assert (note is not None) == (not model.learnable_[i, j])
    assert len({frozenset(tips) for tips in seen.values()}) == 4
    assert page.troubles == []


def test_search_and_choice_filter_the_features(model, report, visit):
    page = visit(report)
    search, found = page.locator("#table-features [data-search]"), page.locator("#table-features [data-found]")
    assert found.inner_text() == "40 of 40 shown"
    search.press_sequentially("GENE 1")
    assert sorted(column(page, "features", 0)) == sorted(f"gene {j}" for j in [1, *range(10, 20)])
    assert found.inner_text() == "11 of 40 shown"
    search.fill("")
    page.locator("#table-features select").select_option("all 3")
    shared = model.features_[(model.coef_ != 0).all(axis=0)]
    assert sorted(column(page, "features", 0)) == sorted(shared)
    search.fill("no such feature")
    assert column(page, "features", 0) == []


def test_columns_sort_with_the_keyboard(model, report, visit):
    page = visit(report)
    head = page.locator("#table-features th", has_text="Strength")
    names = model.features_[np.argsort(-model.row_norms_, kind="stable")].tolist()
    used = int((model.row_norms_ > 0).sum())
    assert head.get_attribute("aria-sort") == "none"
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, "features", 0)[:used] == names[:used]
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, "features", 0)[-used:] == names[:used][::-1]
    page.locator("#table-features thead th").first.get_by_role("button").click()
    assert column(page, "features", 0) == [f"gene {j}" for j in range(40)]
    assert head.get_attribute("aria-sort") == "none"


def test_names_with_markup_stay_text(evil_report, visit):
    page = visit(evil_report)
    assert page.troubles == []  # no dialog, and no request for mathematics
    assert sorted(column(page, "features", 0)) == sorted(EVIL)
    assert sorted(column(page, "tasks", 0)) == sorted(EVIL_TASKS)
    assert page.locator("img[src=x]").count() == 0
    tips = tips_over_the_map(page)
    assert {name for name in EVIL for tip in tips if tip.startswith(f"{name} in ")} >= set(EVIL[:3])
    assert page.locator("#tip *").count() == 0
    labels = page.evaluate(
        """[...Bokeh.documents[0].roots()[0].references()].filter((part) => ["rows", "columns"].includes(part.name))
        .flatMap((axis) => [...axis.major_label_overrides.values()])"""
    )
    assert {label.replace("\u200b", "") for label in labels} >= {"$$t$$", "south", "● $$x$$"}
    assert not any("$$" in label for label in labels)  # Bokeh would set these as mathematics


def test_no_other_script_can_run(report, visit):
    page = visit(report)
    ran = page.evaluate(
        """() => { const script = document.createElement("script"); script.textContent = "window.ran = true";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = true'>");
        return new Promise((done) => setTimeout(() => done(window.ran === true), 200)); }"""
    )
    assert not ran
    assert any("Content Security Policy" in trouble for trouble in page.troubles)


def test_dark_follows_the_system_and_the_button(report, visit):
    page = visit(report, color_scheme="dark")
    button = page.locator("#theme")

    def state():
        grounds = page.evaluate("Bokeh.documents.map((one) => one.roots()[0].background_fill_color)")
        assert len(set(grounds)) == 1  # all charts follow
        dark = brightness(page, "body") < 60
        assert int(grounds[0][1:3], 16) < 60 if dark else grounds[0] == "#ffffff"
        assert button.get_attribute("aria-pressed") == str(dark).lower()
        return "dark" if dark else "light"

    assert state() == "dark"
    picture = page.locator("#live-map").screenshot()
    button.press("Enter")
    assert state() == "light"
    assert page.locator("#live-map").screenshot() != picture
    button.press("Space")
    assert state() == "dark"
    system = visit(report, color_scheme="light")
    assert brightness(system, "body") == 255
    system.emulate_media(color_scheme="dark")
    assert brightness(system, "body") < 60
    assert page.troubles == system.troubles == []


def test_page_is_readable_without_scripts(report, visit):
    page = visit(report, java_script_enabled=False)
    assert page.locator("figure .still:visible").count() == 3
    assert page.locator(".js-only:visible").count() == 0
    assert page.locator(".live:visible").count() == 0
    assert page.locator("#table-features tbody tr:visible").count() == 40
    assert "in all 3 tasks" in page.locator("main").inner_text()


def test_print_shows_still_pictures_on_white(report, visit):
    page = visit(report, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("figure .still:visible").count() == 3
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    for hidden in (".live", ".tools", "nav", "#theme"):
        assert page.locator(f"{hidden}:visible").count() == 0
    assert brightness(page, "body") > 250
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not on this machine")
def test_in_print_every_page_of_a_long_table_has_its_column_heads(visit, tmp_path):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((1200, 4)), np.array([f"place {k}" for k in range(120)]).repeat(10)
    model = LassoMTL(0.01).fit(X, X[:, 0] + rng.standard_normal(1200), task=task)
    write_report(model, tmp_path / "page.html")
    visit(tmp_path / "page.html").pdf(path=tmp_path / "page.pdf", format="A4")
    subprocess.run(["pdftotext", "-layout", "page.pdf", "page.txt"], cwd=tmp_path, check=True)
    pages = (tmp_path / "page.txt").read_text(encoding="utf-8").split("\f")
    listed = [page for page in pages if re.search(r"^place \d+ +10 ", page, re.MULTILINE)]
    assert len(listed) > 1
    for page in listed:
        assert "Rows" in page


@pytest.mark.parametrize("width", [320, 390, 1400])
def test_nothing_is_wider_than_the_window(report, visit, width):
    page = visit(report, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_keyboard_reaches_the_content_first(report, visit):
    page = visit(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    assert page.evaluate("getComputedStyle(document.querySelector('#theme')).outlineStyle") == "none"
    page.locator("#theme").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


# ------------------------------------------------------------------ in the user's words


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_first_screen_answers(patients, visit, width, scheme):
    page = visit(patients[1], viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert page.locator("h1").inner_text() == "What predicts updrs in 12 patients"
    lead = page.locator("#summary .lead").first
    assert lead.bounding_box()["y"] + lead.bounding_box()["height"] < 900
    assert lead.inner_text().startswith("updrs rises with dose (+")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.troubles == []


def test_a_task_is_chosen_with_the_keyboard(patients, visit):
    page = visit(patients[1])
    select = page.locator("#one-task")
    names = select.locator("option").all_inner_texts()
    assert names == ["all patients together", *[f"P{i + 1}" for i in range(12)]]
    assert page.locator("#one-said").inner_text().startswith("P1: 30 rows")
    assert page.locator("#one-panels svg").count() == 3
    assert page.locator("#one-panels svg").nth(1).locator("circle").count() == 30
    select.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#one-said").inner_text().startswith("P2: ")
    assert page.locator("#one-panels h3").first.inner_text().startswith("P2: effect of one s.d.")
    page.locator("#one-after").press("Enter")
    assert select.input_value() == "2"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert select.input_value() == "1"
    assert "Resembles most: P" in page.locator("#one-alike").inner_text()
    select.select_option("all")
    assert page.locator("#one-panels svg").first.locator("circle").count() == 360
    assert page.troubles == []


def test_threshold_and_task_change_the_curves(relapses, visit):
    page = visit(relapses)
    said = page.locator("#threshold-said")
    first = said.inner_text()
    assert first.startswith("From a probability of 50 % on: found ")
    page.locator("#threshold").focus()
    page.keyboard.press("Home")
    assert said.inner_text().startswith("From a probability of 1 % on: found ")
    assert "(100 %) rows of yes" in said.inner_text()
    assert page.locator("#curve-panels svg").count() == 2
    shape = page.locator("#curve-panels polyline").get_attribute("points")
    page.locator("#curve-task").select_option("2")
    assert page.locator("#curve-panels h3").first.inner_text() == "P2: ROC, yes"
    assert page.locator("#curve-panels polyline").get_attribute("points") != shape
    assert page.troubles == []


def taken(page, button):
    """What a button downloads: the name, and the bytes."""
    with page.expect_download() as found:
        button.click()
    return found.value.suggested_filename, pathlib.Path(found.value.path()).read_bytes()


def test_tables_are_taken_along_as_csv(patients, visit):
    model, path = patients
    page = visit(path)
    name, content = taken(page, page.locator('[data-csv="features"]'))
    assert name == "What-predicts-updrs-in-12-patients-features.csv"
    frame = pd.read_csv(io.BytesIO(content), encoding="utf-8-sig")
    assert sorted(frame["Feature"]) == sorted(["dose", "age", "'=mass", "sun", "rain", 'a "b", c'])
    strength = dict(zip(frame["Feature"], frame["Strength"], strict=True))
    assert strength["dose"] == pytest.approx(model.row_norms_[list(model.features_).index("dose")], rel=1e-8)
    for button in page.locator("[data-csv]").all():
        assert len(pd.read_csv(io.BytesIO(taken(page, button)[1]))) > 0
    assert page.troubles == []


def test_charts_are_taken_along_as_svg_and_png(patients, visit):
    page = visit(patients[1])
    for button in page.locator("[data-picture], #one-panels button").all():
        name, content = taken(page, button)
        if name.endswith("svg"):
            assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
        else:
            assert content.startswith(b"\x89PNG")
            assert len(content) > 2000
    assert page.troubles == []


def serious(page):
    """What axe-core finds that is serious or worse, and the first places of it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(patients, relapses, visit, scheme):
    for path in (patients[1], relapses):
        assert serious(visit(path, color_scheme=scheme, bypass_csp=True)) == []


def test_ten_thousand_features_of_two_hundred_tasks(visit, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((400, 10_000)), np.repeat([f"hospital {i}" for i in range(200)], 2)
    model = LassoMTL(lam=0.05).fit(X, X[:, :5].sum(axis=1), task=task)
    coef = rng.standard_normal(model.coef_.shape)  # the worst that a fit could be: nothing is zero in eight stages
    model.stages_ = [dataclasses.replace(model.stages_[0], stage=l + 1, coef=coef * (1 + l)) for l in range(8)]
    model.coef_, model.row_norms_ = model.stages_[-1].coef, np.abs(model.stages_[-1].coef).sum(axis=0)
    path = tmp_path / "report.html"
    began = time.perf_counter()
    write_report(model, path)
    written = time.perf_counter() - began
    page = visit(path)
    ready = time.perf_counter() - began - written
    size = path.stat().st_size
    opened = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
    with capsys.disabled():
        sys.stdout.write(
            f" [{size / 1e6:.1f} MB, written in {written:.1f} s, loaded in {opened:.1f}, ready in {ready:.1f}] "
        )
    assert size < 10e6
    assert page.troubles == []
    text = page.locator("main").inner_text()
    assert "The 300 strongest of 10,000 features are shown" in text
    assert "1,000 of 10,000 lines: the strongest are shown." in text
    page.locator("#stage").focus()
    page.keyboard.press("Home")
    assert "Stage 1 of 8" in page.locator("#stage-said").inner_text()


# ------------------------------------------------------------------ for everybody


@pytest.mark.parametrize(
    ("which", "width", "scheme"),
    [("patients", 400, "dark"), ("patients", 1400, "light"), ("relapses", 400, "light"), ("relapses", 1400, "dark")],
)
def test_axe_finds_no_serious_problem(request, browser, which, width, scheme):
    """axe-core's rules of accessibility, those of WCAG and good practice."""
    script = next(pathlib.Path(pytest.importorskip("axe_playwright_python").__file__).parent.glob("axe*.js"))
    path = request.getfixturevalue(which)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto((path[1] if which == "patients" else path).as_uri())
    page.wait_for_function("document.documentElement.dataset.ready")
    page.add_script_tag(path=script)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    context.close()
    assert len(found["passes"]) > 15
    assert [(one["id"], one["impact"]) for one in found["violations"]] == []


def test_a_large_page_is_small_and_fast(visit, tmp_path):
    """10,000 features and 200 tasks: less than 10 MB, ready in a few seconds (the bar is 3 s on an idle machine)."""
    rng = np.random.default_rng(0)
    X, task = (
        rng.standard_normal((200 * 12, 10_000)).astype(np.float32),
        np.repeat([f"site {i}" for i in range(200)], 12),
    )
    y = X[:, :60] @ rng.standard_normal(60) + rng.standard_normal(len(X))
    model = LassoMTL(0.02).fit(X, y, task=task)
    assert model.coef_.any(axis=0).sum() > 500
    began = time.process_time()
    write_report(model, tmp_path / "r.html")
    assert time.process_time() - began < 6.0
    assert (tmp_path / "r.html").stat().st_size < 10e6
    began = time.perf_counter()
    page = visit(tmp_path / "r.html")
    assert time.perf_counter() - began < 15.0
    assert page.troubles == []


# ------------------------------------------------------------------ every family, every loss


def taken_at_once(page, selector):
    """The texts that buttons would download, without the browser's downloads: of drawings only those as SVG."""
    return page.evaluate(
        """async (selector) => { const kept = [], [make, click] = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
        URL.createObjectURL = (blob) => { kept.push(blob); return ""; };
        HTMLAnchorElement.prototype.click = () => {};
        for (const button of document.querySelectorAll(selector)) if (button.textContent !== "PNG") button.click();
        [URL.createObjectURL, HTMLAnchorElement.prototype.click] = [make, click];
        return Promise.all(kept.map((blob) => blob.text())); }""",
        selector,
    )


def of_family(cls, **options):
    """A search of three sites, in which two features tell something."""
    kind = "two" if hasattr(cls, "predict_proba") else options.get("loss", "squared")
    X, y = make_data(kind)
    if kind == "cox":
        y = pd.DataFrame(y, columns=["days", "died"])
    return cls(task_column="site", cv=3, **options).fit(X, y), X, y


def of_schools(kind):
    """Nested: schools in regions."""
    X, y = make_data("squared")
    school = np.arange(len(X)) % 4
    X["site"] = [f"{region} / {region[0]}{k}" for region, k in zip(X["site"], school, strict=True)]
    X = X.rename(columns={"site": "region,school"})
    return NestedMTLCV(task_column="region,school", kind=kind, cv=3).fit(X, y), X, y


def of_classes(multinomial):
    X, y = make_data("three")
    return MSMTFLClassifierCV(task_column="site", cv=3, multinomial=multinomial, lams=5).fit(X, y), X, y


def of_auto():
    X, y = make_data("squared")
    return MultiTaskAuto(["lasso", "shared", "pooled ridge"], task_column="site", cv=3, inner_cv=3).fit(X, y), X, y


SMOOTH = [loss for loss in LOSSES if loss not in ("squared", "logistic", "softmax")]
PAGES = {
    **{
        family.search.__name__: (of_family, family.search, {})
        for family in known_families()
        if "NestedMTL" not in family.search.__name__
    },
    "RobustMTLCV, rmtfl": (of_family, RobustMTLCV, {"kind": "rmtfl"}),
    **{f"MSMTFLCV, {loss}": (of_family, MSMTFLCV, {"loss": loss}) for loss in SMOOTH},
    **{f"SharedMTLCV, {loss}": (of_family, SharedMTLCV, {"loss": loss}) for loss in SMOOTH},
    **{f"nested, {kind}": (of_schools, kind, {}) for kind in ("sparse", "ridge")},
    "three classes": (of_classes, False, {}),
    "three classes, multinomial": (of_classes, True, {}),
    "automatic choice": (of_auto, None, {}),
}


@pytest.mark.filterwarnings("ignore")  # of fits: they have tests of their own
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_every_family_and_loss(name, visit, tmp_path):
    make, of, options = PAGES[name]
    model, X, y = make(*[of] * (of is not None), **options)
    write_report(model, tmp_path / "r.html", X=X, y=y)
    target, classes = "died" if options.get("loss") == "cox" else "score", hasattr(model, "classes_")
    tasks = "12 schools" if make is of_schools else "3 sites"
    for width, scheme in ((1400, "light"), (400, "dark")):
        page = visit(
            tmp_path / "r.html", viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        )
        assert page.locator("h1").inner_text() == f"What predicts {target} in {tasks}"
        lead = page.locator("#summary .lead").first
        assert lead.bounding_box()["y"] + lead.bounding_box()["height"] < 900
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        figures = page.locator("figure.chart")
        assert figures.count() == page.locator("figure.chart.alive").count() > 0
        drawn = page.locator("#one-panels svg").count()  # effects, if there are any, and what was observed
        assert drawn == bool(coef_by_class(model)[0].any()) + (1 if target == "died" else 0 if classes else 2)
        for word in ("nan", "inf ", "None of", "undefined", "NaN"):
            assert word not in page.locator("#summary").inner_text()
        assert page.troubles == []
    page.locator("#one-after").press("Enter")
    assert page.locator("#one-task").input_value() == "1"
    assert page.locator("#one-said").inner_text().startswith(str(page.locator("#one-task option:checked").inner_text()))
    tables, drawings = taken_at_once(page, "[data-csv]"), taken_at_once(page, '[data-kind="svg"], #one-panels button')
    assert len(tables) >= 5
    for text in tables:
        assert len(pd.read_csv(io.StringIO(text.lstrip("\ufeff")))) > 0
    for text in drawings:
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert serious(page) == []
    assert page.troubles == []


def test_a_page_of_a_comparison(visit, tmp_path):
    X, y = make_data("squared")
    result = compare_models(X, y, task_column="site", models=["lasso", "shared", "pooled ridge"], cv=3)
    write_report(result, tmp_path / "r.html", target="score", task_name="site")
    for width, scheme in ((1400, "light"), (400, "dark")):
        page = visit(
            tmp_path / "r.html", viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        )
        assert page.locator("h1").inner_text() == "Did sharing help predict score in 3 sites?"
        assert page.locator("figure.chart.alive").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(page) == []
        assert page.troubles == []

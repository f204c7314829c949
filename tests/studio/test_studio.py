"""The studio as its visitors see it: a real browser looks at a server that a user would start."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bigain.commands.demo import RECORDS
from helpers.browser import asked, browser, driver, opened, studio, wait

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent

WIDTHS = {"wide": 1280, "narrow": 390}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    browser(), driver()
    with studio(tmp_path_factory.mktemp("studio")) as found:
        yield found


@pytest.fixture(scope="module", params=WIDTHS)
def page(request: pytest.FixtureRequest, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A visitor's page; narrow ones are dark."""
    width = WIDTHS[request.param]
    with opened(tmp_path_factory.mktemp("profile"), width, dark=request.param == "narrow") as found:
        found.width = width
        found.get(url)
        begun(found)
        yield found


def begun(page: Any) -> None:
    """The first race of a page needs no click."""
    wait(lambda: decided(page, "race"), "the first decision")


def text(page: Any, place: str) -> str:
    return str(page.find_element("id", place).text)


def decided(page: Any, place: str) -> str:
    found = text(page, place)
    return found if "paper's protocol takes" in found and found.count("decided") == 2 else ""


def open_tab(page: Any, name: str) -> None:
    wait(lambda: [tab for tab in page.find_elements("css selector", "[role=tab]") if tab.text == name], name)[0].click()


def click(page: Any, selector: str) -> Any:
    found = wait(lambda: page.find_element("css selector", selector), selector)
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    found.click()
    return found


def type_into(page: Any, label: str, value: str) -> None:
    """Write into the number of a slider, or into a box, as a keyboard would."""
    from selenium.webdriver.common.keys import Keys

    found = shown(page, f"input[aria-label*='{label}'], textarea[aria-label*='{label}']")
    found.send_keys(Keys.CONTROL, "a")
    found.send_keys(value, Keys.TAB)


def shown(page: Any, selector: str) -> Any:
    """The one element that can be seen now."""
    return wait(
        lambda: next((part for part in page.find_elements("css selector", selector) if part.is_displayed()), None),
        selector,
    )


def test_the_race_is_run_and_told(page: Any) -> None:
    found = decided(page, "race")
    assert found.startswith("Both say sandal, and it is a sandal.")
    lanes = page.find_elements("css selector", "#race .lane")
    assert [lane.find_element("tag name", "h4").text.split()[0] for lane in lanes] == ["uncompressed", "compressed"]
    for lane in lanes:
        bars = lane.find_elements("css selector", "li")
        assert len(bars) == 10
        assert [bar.get_attribute("aria-label").split(":")[0] for bar in bars if "leads" in bar.get_attribute("class")]
        assert all("dropped out" in bar.get_attribute("aria-label") for bar in bars if bar.text[:6] != "sandal")
    assert "GFLOPs" in found


def test_another_image_is_picked_with_the_keyboard(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    bag = wait(lambda: page.find_element("css selector", "#samples-classify [aria-label='trouser']"), "a sample")
    bag.send_keys(Keys.ENTER)
    found = wait(lambda: "trouser, and it is a trouser" in decided(page, "race") and decided(page, "race"), "trouser")
    assert "Both say trouser" in found
    pressed = page.find_elements("css selector", "#samples-classify [aria-pressed=true]")
    assert [sample.get_attribute("aria-label") for sample in pressed] == ["trouser"]


def test_tokens_light_up_with_their_group(page: Any) -> None:
    open_tab(page, "Look inside")
    wait(lambda: "256 tokens to 77" in text(page, "look"), "the plan at ratio 0.7")
    grid = page.find_element("css selector", "svg.tokens")
    tokens = page.execute_script(
        "return [...document.querySelectorAll('svg.tokens [data-group]')].map(t => [t.dataset.group, t.dataset.into])"
    )
    groups, into = np.array(tokens, dtype=int).T
    assert len(set(groups)) == 77
    assert all(groups[into[i]] == groups[i] for i in range(256))  # who stands for a token is in its group
    grid.send_keys("\ue014")  # arrow right: the first token, then on
    lit = page.execute_script("return [...document.querySelectorAll('svg.tokens [data-group]')].map((t, i) => "
                              "t.classList.contains('on') ? i : -1).filter(i => i >= 0)")  # fmt: skip
    at = int(page.execute_script("return document.querySelector('svg.tokens').dataset.at"))
    assert lit == np.flatnonzero(groups == groups[at]).tolist()
    words = page.find_element("css selector", ".token-words").text
    assert words.startswith(f"The token at row {at // 16 + 1}, column {at % 16 + 1} ")


def test_the_picture_follows_the_operator(page: Any) -> None:
    open_tab(page, "Look inside")
    wait(lambda: "256 tokens to 77" in text(page, "look"), "the plan at ratio 0.7")
    type_into(page, "ratio", "0.5")
    found = wait(lambda: "256 tokens to 128" in text(page, "look") and text(page, "look"), "the plan at ratio 0.5")
    assert "gated_merge(ratio=0.5)" in found
    assert "less computing" in found
    type_into(page, "ratio", "0.7")
    wait(lambda: "256 tokens to 77" in text(page, "look"), "the plan at ratio 0.7")


def test_images_form_and_are_swiped(page: Any) -> None:
    open_tab(page, "Generate")
    wait(
        lambda: "trouser" in page.find_element("css selector", "#generated").find_element("xpath", "../..").text,
        "classes",
    )
    type_into(page, "steps", "4")
    click(page, "#start-generate")
    found = wait(lambda: "Mean SSIM" in text(page, "generated") and text(page, "generated"), "images")
    assert "gated_merge(ratio=0.7) takes 10.9 % less computing than none" in found
    assert found.count(", SSIM 0.") == 2
    swipe = page.find_element("css selector", ".swipe input")
    swipe.send_keys("\ue011")  # home
    assert page.find_element("css selector", ".swipe").get_attribute("style").strip() == "--at: 0%;"


def test_a_point_is_loaded_into_the_other_tabs(page: Any) -> None:
    open_tab(page, "Compare")
    mark = wait(lambda: page.find_element("css selector", ".mark[data-label^='kv_downsample']"), "points")
    assert " MFLOPs" in mark.get_attribute("aria-label")
    mark.send_keys("\ue007")  # enter
    found = wait(lambda: "is now set in the other tabs" in text(page, "point") and text(page, "point"), "the setting")
    assert "kv_downsample(" in found
    open_tab(page, "Look inside")
    wait(lambda: "kv_downsample(" in text(page, "look"), "its plan")
    assert "keys to" in text(page, "look")


def upload(page: Any, place: str, path: Path) -> None:
    """Give a file to an upload area; if it has one, that is taken out first."""
    for clear in page.find_elements("css selector", f"#{place} button[aria-label='Clear']"):
        clear.click()
    found = wait(lambda: page.find_element("css selector", f"#{place} input[type=file]"), place)
    found.send_keys(str(path))


def toast(page: Any) -> str:
    """The text of the error on the page, which is then closed."""
    body = "[data-testid=toast-body]"
    said = wait(lambda: "".join(part.text for part in page.find_elements("css selector", body)), "an error")
    page.execute_script("document.querySelectorAll('[data-testid=toast-close]').forEach(part => part.click())")
    wait(lambda: not page.find_elements("css selector", body), "no error")
    return said


@pytest.mark.parametrize(
    ("tab", "place", "name", "content", "error"),
    [
        ("Compare", "upload-record", "no.sqlite", b"not a database", "no.sqlite is not a bigain record"),
        ("Classify", "drop-classify", "no.png", b"not an image", "no.png cannot be read as an image"),
    ],
)
def test_a_bad_upload_is_told_in_words(
    page: Any, tmp_path: Path, tab: str, place: str, name: str, content: bytes, error: str
) -> None:
    (tmp_path / name).write_bytes(content)
    open_tab(page, tab)
    if tab == "Classify":
        open_tab(page, "Drop")
    upload(page, place, tmp_path / name)
    said = toast(page)
    assert error in said
    assert "/" not in said.replace("PNG, JPEG", "")  # no path of the server


def test_nothing_is_wider_than_the_screen(page: Any) -> None:
    for tab in ("Classify", "Look inside", "Generate", "Compare"):
        open_tab(page, tab)
        assert page.execute_script("return document.documentElement.scrollWidth") == page.width, tab


def test_no_other_host_is_asked(page: Any, url: str) -> None:
    assert all(address.startswith(url) for address in asked(page))
    errors = [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors


def test_the_ground_is_light_or_dark(page: Any) -> None:
    dark = page.width == WIDTHS["narrow"]
    ground = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    values = [int(part) for part in ground[4:-1].split(",")]
    assert max(values) < 60 if dark else min(values) > 200
    page.find_element("id", "theme").click()
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") != ground
    page.find_element("id", "theme").click()


def record_of(page: Any) -> str:
    """The record that the page shows, whatever kind of box it stands in."""
    return str(page.execute_script(
        "const box = document.querySelector('#record'); "
        "return box.innerText + [...box.querySelectorAll('input')].map(part => part.value)"
    ))  # fmt: skip


def test_two_visitors_see_their_own(url: str, page: Any, tmp_path: Path) -> None:
    """One uploads an image and a record; the other, who works at the same time, sees neither."""
    if page.width == WIDTHS["narrow"]:
        pytest.skip("once is enough")
    image = ROOT / "docs" / "images" / "boot.png"
    record = tmp_path / "mine.sqlite"
    shutil.copyfile(RECORDS / "main-unet.sqlite", record)
    with opened(tmp_path / "other", 1280) as other:
        other.get(url)
        open_tab(page, "Classify")
        open_tab(page, "Drop")
        upload(page, "drop-classify", image)
        begun(other)
        found = wait(lambda: "ankle boot" in decided(page, "race") and decided(page, "race"), "the own image")
        assert found.startswith("Both say ankle boot. Compressed")
        assert decided(other, "race").startswith("Both say sandal, and it is a sandal.")
        open_tab(page, "Compare")
        upload(page, "upload-record", record)
        wait(lambda: "Main comparison, fashion-unet" in text(page, "points"), "the own record")
        open_tab(other, "Compare")
        wait(lambda: "Main comparison" in text(other, "points"), "a record")
        assert "mine (yours)" in record_of(page)
        assert "main-dit" in record_of(other)
        assert "mine" not in record_of(other)


def test_a_drawing_is_classified(page: Any) -> None:
    from selenium.webdriver import ActionChains

    open_tab(page, "Classify")
    open_tab(page, "Draw")
    pad = shown(page, "#pad-classify canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", pad)
    pen = ActionChains(page).move_to_element_with_offset(pad, -40, -60).click_and_hold()
    pen.move_by_offset(0, 120).move_by_offset(80, 0).move_by_offset(0, -120).release().perform()
    next(part for part in page.find_elements("tag name", "button") if part.text == "Use this drawing").click()
    wait(
        lambda: page.find_elements("css selector", "#race img[alt*='your drawing']") and decided(page, "race"), "a race"
    )

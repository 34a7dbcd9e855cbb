from __future__ import annotations

import re
from pathlib import Path

import pytest

from static_container_registry import (
    Document,
    OptionError,
    Options,
    Parts,
    Repository,
    Tag,
    read_tree,
    render,
    served,
)
from static_container_registry.__main__ import main
from tests.fixture_tree import OCI, sha256

GOLDENS = Path(__file__).parent / "goldens"
SOLUTION = Options("{{ registry_root }}", "{{ repository }}", Parts.ARCHIVE)


@pytest.mark.parametrize(
    ("golden", "options"),
    [
        ("standalone.conf", Options("/srv/images")),
        ("solution.conf.j2", SOLUTION),
        ("variable.conf", Options("$registry_root/images", "org/x.y", Parts.ARCHIVE)),
        ("constants.conf", Options(parts=Parts.CONSTANTS)),
    ],
)
def test_golden(tree: Path, golden: str, options: Options, regenerate: bool) -> None:
    text = render(read_tree(tree), options)
    path = GOLDENS / golden
    if regenerate:
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_order_of_images_does_not_matter(tree: Path) -> None:
    images = read_tree(tree)
    assert render(reversed(images), SOLUTION) == render(images, SOLUTION)


def test_everything_is_the_archive_followed_by_the_constants(tree: Path) -> None:
    images = read_tree(tree)
    both = [render(images, Options("/r", parts=part)) for part in (Parts.ARCHIVE, Parts.CONSTANTS)]
    whole = render(images, Options("/r"))
    header = both[1].splitlines()[0]
    assert whole == both[0] + "\n" + both[1].replace(f"{header}\n\n", "")


@pytest.mark.parametrize("options", [Options("/srv/images"), SOLUTION, Options("$root", "a/b")])
def test_what_is_served_can_be_read_back(tree: Path, options: Options) -> None:
    repositories = read_tree(tree)
    files = {document.path for one in repositories for document in one.documents}
    files |= {f"{blob.folder}/{blob.hex}" for one in repositories for blob in one.blobs}
    assert served(render(repositories, options)) == files
    assert served("server { }") == set()


@pytest.mark.parametrize("parts", list(Parts))
def test_jinja_finds_only_the_placeholders(tree: Path, parts: Parts) -> None:
    text = render(read_tree(tree), Options("{{ registry_root }}", "{{ repository }}", parts))
    rest = text.replace("{{ registry_root }}", "").replace("{{ repository }}", "")
    assert not re.search(r"\{[{%#]", rest)


def repository(name: str, *tags: str) -> Repository:
    digits = {tag: sha256(f"{name}:{tag}".encode()) for tag in tags}
    documents = [Document(digits[tag], OCI, f"{name}/{tag}/manifest.json") for tag in tags]
    return Repository(name, tuple(Tag(*pair) for pair in digits.items()), tuple(documents))


def test_no_word_is_too_long_for_nginx() -> None:
    repositories = [repository(f"{'long-name-' * 8}{i:04}", f"{i}-{'t' * 100}") for i in range(200)]
    repositories.append(repository("many", *(f"{i}-{'t' * 100}" for i in range(200))))
    text = render(repositories, SOLUTION).replace("{{ repository }}", "p" * 255)
    words = re.findall(r'"[^"\n]*"|\'[^\'\n]*\'', text)
    assert max(map(len, words)) < 4096


def test_too_long_names_are_refused() -> None:
    long = repository("a" * 250, "1")
    with pytest.raises(OptionError, match="longer than 255"):
        render([long], Options("/r", "prefix"))
    assert render([long], SOLUTION)


def test_no_images_are_refused() -> None:
    with pytest.raises(OptionError, match="no image"):
        render([], Options("/r"))


def test_generate_writes_a_whole_file(tree: Path, tmp_path: Path) -> None:
    output = tmp_path / "registry-config.inc"
    assert main(["generate", str(tree), "--output", str(output)]) == 0
    assert output.read_text() == render(read_tree(tree), Options(str(tree)))
    assert [path.name for path in tmp_path.glob("*registry*")] == [output.name]


def test_generate_reports_every_problem_and_writes_nothing(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "one").mkdir()
    (tree / "two").mkdir()
    output = tmp_path / "out"
    assert main(["generate", str(tree), "--output", str(output)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("TreeError: ")
    assert str(tree / "one") in captured.err
    assert str(tree / "two") in captured.err
    assert "Solution: " in captured.err
    assert not output.exists()


def test_generate_constants_needs_no_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--only-constants"]) == 0
    assert capsys.readouterr().out == render((), Options(parts=Parts.CONSTANTS))
    assert main(["generate"]) == 1


def test_constants_flags_exclude_each_other(tree: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["generate", str(tree), "--only-constants", "--omit-constants"])
    assert caught.value.code == 2


def test_output_that_cannot_be_written(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(tree), "--output", "/nonexistent/x"]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_check_command(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tree)]) == 0
    (tree / "pause/3.2/manifest.json").unlink()
    assert main(["check", str(tree)]) == 1
    assert "pause/3.2" in capsys.readouterr().err

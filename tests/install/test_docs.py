"""What the pages promise: marked commands run, links lead somewhere, named targets, scripts and variables exist.

In Markdown, a code block below `<!-- run -->` is run by bash. One below `<!-- file: NAME -->` is written to a folder of
the page's own, in which the page's commands then run; on a page without such files they run in the repository's root.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/README.md")])
BLOCK = re.compile(r"^<!-- (run|file: (?P<name>\S+)) -->\n```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND_LIMIT_S = 240  # it only ends what hangs: three jobs of Keras, say, beside other stages


def text_of(page):
    return page.read_text(encoding="utf-8")


def page_id(page):
    return str(page.relative_to(ROOT))


def runnable(page):
    return [match for match in BLOCK.finditer(text_of(page)) if not match["name"]]


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=page_id)
def test_marked_commands_run(page, run, tmp_path):
    folder = ROOT
    for match in BLOCK.finditer(text_of(page)):
        if match["name"]:
            folder = tmp_path
            (folder / match["name"]).write_text(match["text"], encoding="utf-8")
    environment = {"PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"}
    for match in runnable(page):
        run("bash", "-euo", "pipefail", "-c", match["text"], cwd=folder, env=environment, limit_s=COMMAND_LIMIT_S)


def test_marks_are_understood():
    # A mark with a slip in it would be a command that is never run.
    for page in PAGES:
        marks = re.findall(r"^<!-- ?(?:run|file).*$", text_of(page), flags=re.MULTILINE)
        assert len(marks) == len(list(BLOCK.finditer(text_of(page)))), f"{page_id(page)}: {marks}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose)
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing


#: Names of other systems, by the page that speaks of them, and of what a build makes.
FOREIGN = {"SetCPUAllocator", "InitProcessGroupKwargs", "resize_", "coll/sm", ".venv/bin"}
BUILT = ("build/", "ronde/_extension")


@pytest.fixture(scope="module")
def tree():
    """Every tracked file and folder, and every word of the sources."""
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    paths = {str(part) for file in files for part in (Path(file), *Path(file).parents)}
    sources = [ROOT / file for file in files if Path(file).suffix not in (".md", ".png", ".svg")]
    words: "set[str]" = set()
    for source in sources:
        words.update(re.findall(r"\w+", source.read_text(encoding="utf-8", errors="ignore")) if source.is_file() else [])
    return paths, words


def alternatives(text):
    """``a.{h,cc}`` is two paths."""
    found = re.search(r"\{([^{}]*)\}", text)
    if not found:
        return [text]
    return [one for each in found[1].split(",") for one in alternatives(text[:found.start()] + each + text[found.end():])]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=page_id)
def test_paths_and_names_exist(page, tree):
    """What a page calls by a path or a name of the sources is there. The changelog speaks of what was."""
    paths, words = tree
    prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    roots = ("", "src/", "docs/", "python/ronde/", "tests/", "include/", "src/transport/", f"{page.parent.relative_to(ROOT)}/")
    missing = []
    for quoted in set(re.findall(r"`([^`\n]+)`", prose)) - FOREIGN:
        is_path = re.fullmatch(r"[\w.\-/{},]*[a-z_]/[\w.\-/{},]*", quoted) and not quoted.startswith("/")
        if is_path and not quoted.startswith(BUILT):
            missing += [path for path in alternatives(quoted.rstrip("/"))
                        if not any(root + path + end in paths for root in roots for end in ("", ".h", ".cc", ".py"))]
        names = re.findall(r"\b(?:ronde_\w+|[A-Z][a-z]\w+::\w+|[A-Z][a-z]+[A-Z]\w+|\w+(?=\(\)))", quoted)
        missing += [name for name in names if name not in FOREIGN and not words.issuperset(re.findall(r"\w+", name))]
    assert not missing


@pytest.mark.parametrize("page", sorted((ROOT / "src").glob("*/README.md")), ids=page_id)
def test_a_folders_table_names_its_sources(page):
    """The first column of a table in a folder's page: its sources, without their ends."""
    named = [name for row in re.findall(r"^\| (`.+?`) \|", text_of(page), flags=re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert named
    assert not [name for name in named if not any(page.parent.rglob(f"{name}.*"))]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_named_targets_and_scripts_exist(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    blocks = re.findall(r"^```sh\n(.*?)^```$", text_of(page), flags=re.MULTILINE | re.DOTALL)
    commands = re.findall(r"`(make [^`\n]+)`", text_of(page)) + "".join(blocks).splitlines()
    used = {match[1] for match in map(re.compile(r"(?:[A-Z_]+=\S+ )*make ([a-z-]+)").match, commands) if match}
    assert used <= targets
    scripts = re.findall(r"`(tools/[\w.]+)`", text_of(page))
    assert not [script for script in scripts if not (ROOT / script).exists()]


def test_environment_page_names_every_variable():
    sources = [path for folder in ("src", "python") for path in (ROOT / folder).rglob("*")
               if path.suffix in (".cc", ".h", ".py") and "_test" not in path.stem and "model" not in path.parts]
    used = {name for path in sources for name in re.findall(r'"(RONDE_[A-Z0-9_]+)"', text_of(path))}
    page = set(re.findall(r"`(RONDE_[A-Z0-9_]+)`", text_of(ROOT / "docs/environment.md")))
    assert used == page


def test_failure_page_names_every_code():
    header = text_of(ROOT / "include/ronde/ronde.h")
    codes = re.search(r"typedef int32_t ronde_status;\nenum \{(.*?)\};", header, flags=re.DOTALL)[1]
    declared = set(re.findall(r"(RONDE_[A-Z_]+) =", codes)) - {"RONDE_OK"}
    page = re.findall(r"^\| `(RONDE_[A-Z_]+)` \|", text_of(ROOT / "docs/failure.md"), flags=re.MULTILINE)
    assert sorted(page) == sorted(declared)


def test_nothing_of_one_machine_is_committed():
    # A path of somebody's home or of a build farm in a page or script works on no other machine.
    listing = subprocess.run(["git", "ls-files", "-z", "*.md", "tools", "Makefile", "cmake", "pyproject.toml"], cwd=ROOT,
                             stdout=subprocess.PIPE, check=True, text=True).stdout
    for path in filter(None, listing.split("\0")):
        assert not re.search(r"/(home|root|Users)/\w", text_of(ROOT / path)), path

"""The table of threats in docs/sites.md: every test that it names is there; what none shows is said to remain."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_named_test_is_there():
    section = (ROOT / "docs/sites.md").read_text().partition("## Threats")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 15
    for row in rows:
        attacker, tries, stopped_by, tests, remains = (cell.strip() for cell in row.strip("|").split("|"))
        assert attacker and tries and stopped_by and (tests or remains), row
        for name in re.findall(r"`([^`]+)`", tests):
            file, _, function = name.partition("::")
            wanted = f"def {function}(" if function else "def test_"
            assert (ROOT / file).is_file() and wanted in (ROOT / file).read_text(), name

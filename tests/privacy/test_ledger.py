"""A ledger only grows, survives a crash in the middle of a line, and refuses what it cannot read."""

import pytest

from tffapps.errors import UserError
from tffapps.privacy.ledger import Ledger, read_csv, write_csv
from tffapps.privacy.release import EXACT, GAUSSIAN, POISSON, RECORD, Release

FIRST = Release("update of round 1", GAUSSIAN, 1.5, by=("a", "b é"))
SECOND = Release("steps of round 1", POISSON, 1.0, 0.25, 12, RECORD, ("a",))


def test_lines_are_added_and_a_replay_stands_there_twice(tmp_path):
    ledger = Ledger(tmp_path / "new" / "privacy.jsonl")
    assert ledger.releases() == []
    ledger.append([FIRST, SECOND])
    Ledger(ledger.path).append([FIRST])
    assert ledger.releases() == [FIRST, SECOND, FIRST]


def test_a_line_that_a_crash_cut_short_was_never_begun(tmp_path):
    ledger = Ledger(tmp_path / "privacy.jsonl")
    ledger.append([FIRST])
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + whole[:20])
    assert ledger.releases() == [FIRST]
    ledger.append([SECOND])
    assert ledger.releases() == [FIRST, SECOND]


@pytest.mark.parametrize("line", ["{}", "nonsense", '{"what": "x"}', "[" * 3000])
def test_a_line_that_is_no_release_is_named(tmp_path, line):
    ledger = Ledger(tmp_path / "privacy.jsonl")
    ledger.append([FIRST])
    ledger.path.write_text(ledger.path.read_text() + line + "\n")
    with pytest.raises(UserError, match="line 2"):
        ledger.releases()


def test_a_table_and_back(tmp_path):
    path = tmp_path / "ledger.csv"
    write_csv(path, [FIRST, SECOND])
    assert read_csv(path) == [FIRST, SECOND]
    path.write_text("what,noise\nx,1\n")
    with pytest.raises(UserError, match=r"ledger\.csv"):
        read_csv(path)


@pytest.mark.parametrize(
    "wrong", [{"mechanism": "laplace"}, {"unit": "pixel"}, {"noise": -1.0}, {"sampling": 0.5}, {"count": 0}]
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        Release(**{"what": "x", "mechanism": EXACT, **wrong})

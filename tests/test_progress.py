import io
import sys

from tffapps import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_in_a_log_come_seldom_and_at_the_end(monkeypatch, capsys):
    clock = iter(range(0, 1000, 4))  # four seconds for each item, a line after ten or more
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert list(progress.track(iter("abcdefgh"), 8, "work")) == list("abcdefgh")
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "work: 8/8"
    assert 2 <= len(lines) < 6


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(progress.track(iter("ab"), 2, "work")) == ["a", "b"]
    assert "work:   0%" in sys.stderr.getvalue()


def test_nothing_when_not_wanted(capsys):
    assert list(progress.track(iter("ab"), 2, "work", show=False)) == ["a", "b"]
    assert capsys.readouterr().err == ""

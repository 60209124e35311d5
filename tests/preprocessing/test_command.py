"""How a command ends, whatever happens to its work."""

from __future__ import annotations

import argparse
from concurrent.futures.process import BrokenProcessPool

import pytest

from preprocessing import command
from preprocessing.errors import RunStopped, UserError


def ending(work, capsys) -> tuple[int, str]:
    status = command.run("knee", work, argparse.Namespace())
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UserError("in: no images"), 2, "error: in: no images"),
        (BrokenProcessPool(), 3, "stopped: a process was killed, perhaps for want of memory; try fewer --workers"),
        (RunStopped("no space left"), 3, "stopped: no space left"),
        (
            OSError(28, "Full", "a.png"),
            3,
            "stopped: no space left to write a.png; free some and run the same command again",
        ),
        (OSError(28, "Full"), 3, "stopped: no space left to write a file; free some and run the same command again"),
        (OSError(13, "Permission denied", "out/a.png"), 2, "error: out/a.png: Permission denied"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C; run the same command again"),
    ],
    ids=["wrong use", "killed process", "stopped", "full disk", "full disk, no file", "denied", "Ctrl-C"],
)
def test_what_went_wrong_is_one_line(error, status, line, capsys):
    def work(options):
        raise error

    assert ending(work, capsys) == (status, f"preprocessing.knee: {line}\n")


def test_the_status_of_the_work_itself(capsys):
    assert ending(lambda options: command.say("knee", "nothing accepted", 1), capsys) == (
        1,
        "preprocessing.knee: nothing accepted\n",
    )
    assert ending(lambda options: 0, capsys) == (0, "")


def test_a_mistake_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        command.run("knee", lambda options: 1 // 0, argparse.Namespace())


def test_numbers_above_0():
    assert command.positive("3") == 3
    for text in ("0", "-1", "x", "1.5", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a number above 0"):
            command.positive(text)

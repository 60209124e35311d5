"""An argument parser whose complaint is one line: the usage of a command with many flags would hide it."""

from __future__ import annotations

import argparse
import typing


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        name = self.prog.removeprefix("python -m ")
        self.exit(2, f"{name}: error: {' '.join(message.split())}; --help lists what can be given\n")

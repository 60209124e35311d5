"""`python -m preprocessing.stain IN OUT`: the stains of a whole folder of H&E patches, on all cores.

    OUT/stains.csv      file, the stain matrix (h_red … e_blue), ok, reason; no numbers where it could not be measured
    OUT/<as in IN>.png  with --target: every patch in the target's stains; one that is not ok stays as it was

Every file appears whole or not at all, and a second run writes the same files again.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import csv
import dataclasses
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from preprocessing.knee_files import SUFFIXES, UserError, as_png, list_files, make_writable, read, write
from preprocessing.knee_settings import KneeRejected
from preprocessing.stain_settings import METHODS, StainRejected, StainSettings

if TYPE_CHECKING:
    import numpy as np

TABLE = "stains.csv"
COLUMNS = ("file", "h_red", "h_green", "h_blue", "e_red", "e_green", "e_blue", "ok", "reason")
_FILES_AT_ONCE, _BYTES_AT_ONCE = 32, 2**22  # for each thread: enough to be worked on as a stack, few for memory
_SECONDS_BETWEEN_LINES = 10.0


@dataclasses.dataclass(frozen=True)
class _Target:
    matrix: np.ndarray  # (3, 2)
    strength: np.ndarray  # (2,)


@dataclasses.dataclass
class _Row:
    file: Path
    reason: str
    matrix: np.ndarray | None = None  # where it could be measured


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 done with no patch separated, 2 wrong use, 3 stopped halfway."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except UserError as error:
        return _say(f"error: {error}", 2)
    except OSError as error:  # reading is never the cause: a patch that cannot be opened gets a reason
        return _say(f"stopped: cannot write {error.filename or options.out}: {error.strerror}", 3)
    except KeyboardInterrupt:
        return _say("stopped by the user; run the same command again", 3)


def _parser() -> argparse.ArgumentParser:
    default = StainSettings()
    parser = argparse.ArgumentParser(
        prog="python -m preprocessing.stain",
        description="Measures the stains of every H&E patch below a folder; with a target, gives them all its stains.",
    )
    parser.add_argument("source", metavar="IN", type=Path, help="folder of patches, in any sub-folders")
    parser.add_argument("out", metavar="OUT", type=Path, help=f"folder for {TABLE} and, with --target, the patches")
    parser.add_argument("--method", choices=METHODS, default=default.method, help="how (default %(default)s)")
    parser.add_argument("--target", type=Path, metavar="FILE", help="a patch whose stains all shall have")
    parser.add_argument("--workers", type=_positive, metavar="N", help="threads (default: one for each core)")
    return parser


def _positive(text: str) -> int:
    with contextlib.suppress(ValueError):
        if int(text) > 0:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def _run(options: argparse.Namespace) -> int:
    files = list_files(options.source, options.out)
    settings = StainSettings(method=options.method)
    target = _read_target(options.target, settings) if options.target else None
    if target:
        _check_names(files)
    make_writable(options.out)

    blocks = [files[start : start + _FILES_AT_ONCE] for start in range(0, len(files), _FILES_AT_ONCE)]
    rows: list[_Row] = []
    with concurrent.futures.ThreadPoolExecutor(options.workers or os.cpu_count() or 1) as pool:
        tasks = [pool.submit(_do_block, block, options.source, options.out, settings, target) for block in blocks]
        try:
            rows.extend(_track(tasks, len(files)))
        finally:
            pool.shutdown(cancel_futures=True)
    write(options.out / TABLE, _table(rows))

    done = sum(row.matrix is not None for row in rows)
    print(f"{len(rows)} files: {done} separated, {len(rows) - done} not")
    for kind, count in collections.Counter(row.reason.partition(":")[0] for row in rows if row.reason).most_common():
        print(f"  {count} {kind}")
    print(f"matrices and reasons: {options.out / TABLE}")
    if not done:
        return _say(f"no patch could be separated; see {options.out / TABLE}", 1)
    return 0


def _read_target(path: Path, settings: StainSettings) -> _Target:
    from preprocessing import stain

    try:
        result = stain.separate(_decode(path)[None], settings)
    except StainRejected as rejected:
        raise UserError(f"{path}: cannot be the target: {rejected}") from None
    if not result.ok[0]:
        raise UserError(f"{path}: cannot be the target: {result.reasons[0]}")
    return _Target(result.matrices[0], stain.strength(result.densities)[0])


def _check_names(files: list[Path]) -> None:
    """No result may take another's place, such as that of x.jpg the one of x.jpg.png."""
    seen: dict[Path, Path] = {}
    for file in files:
        other = seen.setdefault(as_png(file), file)
        if other != file:
            raise UserError(f"{other} and {file} would both become {as_png(file)}; rename one")


def _do_block(
    files: list[Path], source: Path, out: Path, settings: StainSettings, target: _Target | None
) -> list[_Row]:
    """Patches of one size are worked on together, as many as memory allows."""
    rows = {file: _Row(file, "") for file in files}
    waiting: dict[tuple[int, ...], list[tuple[_Row, np.ndarray]]] = collections.defaultdict(list)
    for file, row in rows.items():
        try:
            image = _decode(source / file)
        except StainRejected as rejected:
            row.reason = str(rejected)
            if target:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    (out / as_png(file)).unlink()  # an earlier run's, when it could be read
            continue
        same = waiting[image.shape]
        same.append((row, image))
        if len(same) * image.size > _BYTES_AT_ONCE:
            _do_stack(waiting.pop(image.shape), out, settings, target)
    for same in waiting.values():
        _do_stack(same, out, settings, target)
    return list(rows.values())


def _do_stack(same: list[tuple[_Row, np.ndarray]], out: Path, settings: StainSettings, target: _Target | None) -> None:
    import numpy as np

    from preprocessing import stain

    stack = np.stack([image for _, image in same])
    if target:
        matrices, densities, ok, reasons = stain.separate(stack, settings, workers=1)
        pictures = stain.normalise(densities, target.matrix, target.strength, workers=1)
    else:
        matrices, ok, reasons = stain.matrices_of(stack, settings, workers=1)
    for index, (row, image) in enumerate(same):
        row.reason = reasons[index]
        row.matrix = matrices[index] if ok[index] else None
        if target:
            write(out / as_png(row.file), _encode(pictures[index] if ok[index] else image))


def _decode(path: Path) -> np.ndarray:
    """RGB or, with opacity, RGBA (height, width, 3 or 4). Raises `StainRejected`."""
    import cv2
    import numpy as np

    from preprocessing import knee

    if path.suffix.lower() not in SUFFIXES:
        raise StainRejected(f"not an image: its name ends in {path.suffix or 'nothing'!r}")
    try:
        contents = read(path)
        knee.decode(contents)  # only for its checks: OpenCV fills up damaged files without a word
    except KneeRejected as rejected:
        raise StainRejected(" ".join(str(rejected).split())) from None
    image = cv2.imdecode(np.frombuffer(contents, np.uint8), cv2.IMREAD_UNCHANGED)
    if image.dtype != np.uint8:
        raise StainRejected(f"not 8 bits: its values are {image.dtype}, 0 to 255 are needed")
    if image.ndim != 3:
        raise StainRejected("not in colour: it has 1 channel, 3 are needed")
    return cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA if image.shape[2] == 4 else cv2.COLOR_BGR2RGB)


def _encode(image: np.ndarray) -> bytes:
    import cv2

    order = cv2.COLOR_RGBA2BGRA if image.shape[2] == 4 else cv2.COLOR_RGB2BGR
    return cv2.imencode(".png", cv2.cvtColor(image, order))[1].tobytes()


def _table(rows: list[_Row]) -> bytes:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in rows:
        numbers = [""] * 6 if row.matrix is None else [f"{number:.6f}" for number in row.matrix.T.ravel()]
        table.writerow([row.file.as_posix(), *numbers, row.matrix is not None, row.reason])
    return text.getvalue().encode(errors="surrogateescape")


def _track(tasks: list[concurrent.futures.Future[list[_Row]]], total: int) -> Iterator[_Row]:
    """A bar on a terminal, now and then a line in a log file."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(total=total, desc="stain", unit="patch", leave=False) as bar:
            for task in tasks:
                yield from task.result()
                bar.update(len(task.result()))
        return
    last, count = time.monotonic(), 0
    for task in tasks:
        yield from task.result()
        count += len(task.result())
        if count == total or time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"stain: {count}/{total}", file=sys.stderr, flush=True)


def _say(text: str, status: int) -> int:
    print(f"preprocessing.stain: {text}", file=sys.stderr)
    return status

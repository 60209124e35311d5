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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from preprocessing import command, parallel
from preprocessing.errors import Rejected, UserError
from preprocessing.files import as_png, check_distinct, list_files, make_writable, read_image, write
from preprocessing.parser import Parser
from preprocessing.progress import track
from preprocessing.stain_settings import METHODS, StainRejected, StainSettings

if TYPE_CHECKING:
    import numpy as np

NAME = "stain"
TABLE = "stains.csv"
COLUMNS = ("file", "h_red", "h_green", "h_blue", "e_red", "e_green", "e_blue", "ok", "reason")
_FILES_AT_ONCE, _BYTES_AT_ONCE = 32, 2**22  # for each thread: enough to be worked on as a stack, few for memory


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
    return command.run(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    default = StainSettings()
    parser = Parser(
        prog=f"python -m preprocessing.{NAME}",
        description="Measures the stains of every H&E patch below a folder; with a target, gives them all its stains.",
    )
    parser.add_argument("source", metavar="IN", type=Path, help="folder of patches, in any sub-folders")
    parser.add_argument("out", metavar="OUT", type=Path, help=f"folder for {TABLE} and, with --target, the patches")
    parser.add_argument("--method", choices=METHODS, default=default.method, help="how (default %(default)s)")
    parser.add_argument("--target", type=Path, metavar="FILE", help="a patch whose stains all shall have")
    parser.add_argument(
        "--workers", type=command.positive, metavar="N", help="patches worked on at once (default: one for each core)"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    files = list_files(options.source, options.out)
    settings = StainSettings(method=options.method)
    target = _read_target(options.target, settings) if options.target else None
    if target:
        check_distinct((file, as_png(file)) for file in files)
    make_writable(options.out)

    blocks = [files[start : start + _FILES_AT_ONCE] for start in range(0, len(files), _FILES_AT_ONCE)]
    with _pool(options.workers or parallel.cores(), len(files)) as pool:
        tasks = [pool.submit(_do_block, block, options.source, options.out, settings, target) for block in blocks]
        found = (row for task in tasks for row in task.result())
        rows = list(track(found, len(files), NAME, unit="patch"))
    write(options.out / TABLE, _table(rows))

    done = sum(row.matrix is not None for row in rows)
    print(f"{len(rows)} files: {done} separated, {len(rows) - done} not")
    for kind, count in collections.Counter(row.reason.partition(":")[0] for row in rows if row.reason).most_common():
        print(f"  {count} {kind}")
    print(f"matrices and reasons: {options.out / TABLE}")
    if not done:
        return command.say(NAME, f"no patch could be separated; see {options.out / TABLE}", 1)
    return 0


@contextlib.contextmanager
def _pool(workers: int, files: int) -> Iterator[concurrent.futures.Executor]:
    """Processes for many files, threads for few; what has not begun when it ends is given up."""
    if workers > 1 and files >= parallel.MANY:
        with parallel.process_pool(workers) as processes:
            yield processes
        return
    threads = concurrent.futures.ThreadPoolExecutor(workers)
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def _read_target(path: Path, settings: StainSettings) -> _Target:
    from preprocessing import stain

    try:
        result = stain.separate(_decode(path)[None], settings)
    except Rejected as rejected:
        raise UserError(f"{path}: cannot be the target: {rejected}") from None
    if not result.ok[0]:
        raise UserError(f"{path}: cannot be the target: {result.reasons[0]}")
    return _Target(result.matrices[0], stain.strength(result.densities)[0])


def _do_block(
    files: list[Path], source: Path, out: Path, settings: StainSettings, target: _Target | None
) -> list[_Row]:
    """Patches of one size are worked on together, as many as memory allows."""
    rows = {file: _Row(file, "") for file in files}
    waiting: dict[tuple[int, ...], list[tuple[_Row, np.ndarray]]] = collections.defaultdict(list)
    for file, row in rows.items():
        try:
            image = _decode(source / file)
        except Rejected as rejected:
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
    """RGB or, with opacity, RGBA (height, width, 3 or 4). Raises `Rejected`."""
    import cv2
    import numpy as np

    from preprocessing import image_bytes

    image = image_bytes.decode(read_image(path), cv2.IMREAD_UNCHANGED)
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

"""Images made in stacks and kept on disk, for functions that need many at once or something of each image's own.

As in `tffapps.data.cache`, but the function is called in this thread, on stacks, and may be any closure: `settings`
must name all that its answers depend on (function, version, hashes of models), `parameters` what each image is given.
Files are read and written by threads meanwhile; a few batches are in memory, however many images there are.
A function that is `Apart` needs nothing of this process: many images are made by as many processes as there are cores.
Threads do not do it: a small patch is a thousand short calls, and all wait for the one lock of the interpreter.

    <folder>/3f/a2/3fa2….png        the image made
    <folder>/3f/a2/3fa2….json       says that this image is kept as it is
"""

import collections
import contextlib
import dataclasses
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np

from preprocessing import files, image_bytes, stain_pixels
from preprocessing.parallel import cores, process_pool
from tffapps.data.cache import KILLED, key_of, look_up, prefix_of, read, store
from tffapps.errors import Rejected, RunStopped, UserError
from tffapps.progress import track

# (uint8 (n, height, width, 3), their places in the list of paths) -> what is made of each; None: kept as it is
Make = Callable[[np.ndarray, Sequence[int]], np.ndarray | Sequence[np.ndarray | None]]

_DECODING = 1  # raise when `decode` changes
_KEPT = b'{"kept": true}'
_WRITERS = 4  # threads
MANY = 256  # images that are missing: for fewer, processes take longer to start than they save
_ROWS_APART = 128  # that a process is given at a time

T = TypeVar("T")
U = TypeVar("U")


@dataclasses.dataclass(frozen=True)
class Apart:
    """An importable function, or a `functools.partial` of one: (images, what each of them is given) to its answers."""

    function: Callable[[np.ndarray, Sequence[Any]], np.ndarray | Sequence[np.ndarray | None]]

    def of(self, parameters: Sequence[Any]) -> Make:
        return lambda images, rows: self.function(images, [parameters[row] for row in rows])


def made_images(
    paths: Sequence[Any],
    parameters: Sequence[Any],
    make: Make | Apart,
    settings: dict[str, Any],
    folder: Path,
    *,
    batch: int = 64,
    workers: int | None = None,
    title: str = "",
    progress: bool = True,
) -> tuple[list[Path | None], dict[str, str]]:
    """The image made of each path (the path itself where kept, None where unreadable), and why each of those is.

    `parameters` has for each path something that JSON can hold; `make` finds it by the places it is given. Stacks
    are of one size and hold at most `batch` images. `workers` is a number of threads, by default one for each core.
    """
    if len(paths) != len(parameters):
        raise ValueError(f"{len(parameters)} parameters for {len(paths)} images: there must be one for each")
    folder = Path(folder)
    texts = [os.fspath(path) for path in paths]
    rejects: dict[str, str] = {}

    def key(row: int) -> str | None:
        try:
            return key_of(prefix_of(settings, parameters[row], _DECODING), texts[row])
        except Rejected as rejected:
            rejects[texts[row]] = str(rejected)
            return None

    keys, missing = list[str | None](), dict[str, int]()  # the row of each key; equal ones once
    called = title or "images"
    with _pool(workers) as pool, _Processes(make, folder, batch, workers or cores(), len(texts)) as processes:
        for row, found in enumerate(_ahead(pool, key, range(len(texts)), batch)):
            keys.append(found)
            if found and found not in missing and look_up(folder, found) is None:
                missing[found] = row
                processes.give(found, texts[row], parameters[row])
        if processes.begun:
            for unreadable in track(processes.done(), len(missing), called, progress):
                rejects.update(unreadable)
    if missing and not processes.begun:
        here = make.of(parameters) if isinstance(make, Apart) else make
        items = track(missing.items(), len(missing), called, progress)
        rejects.update(_fill(items, texts, here, folder, batch, workers))

    def result(path: str, key: str | None) -> Path | None:
        entry = look_up(folder, key) if key else None
        if key and entry is None:
            rejects.setdefault(path, rejects[texts[missing[key]]])  # the reason of a file that is equal to it
        return Path(path) if entry is not None and entry.suffix == ".json" else entry

    return [result(path, key) for path, key in zip(texts, keys)], rejects


def made_paths(
    paths: Sequence[Any],
    parameters: Sequence[Any],
    make: Make | Apart,
    settings: dict[str, Any],
    folder: Path,
    title: str,
) -> list[str]:
    """`made_images` of files that are known to be readable, as absolute paths."""
    found, rejects = made_images(paths, parameters, make, settings, folder, title=title)
    for path, reason in rejects.items():
        raise UserError(f"{path}: {reason}; it could be read before: run the command again")
    return [os.path.abspath(str(path)) for path in found]


def _fill(
    items: Iterable[tuple[str, int]],
    paths: Sequence[str],
    make: Make,
    folder: Path,
    batch: int,
    workers: int | None,
) -> dict[str, str]:
    """Makes and keeps an image for each of these keys and rows; why files could not be read."""
    keys, rejects = dict[int, str](), dict[str, str]()

    def rows() -> Iterator[int]:
        for key, row in items:
            keys[row] = key
            yield row

    def write(key: str, answer: np.ndarray | None) -> None:
        if answer is None:
            store(folder, key, ".json", _KEPT)
        else:
            store(folder, key, ".png", encode(answer))

    writing: collections.deque[Future] = collections.deque()
    read_ahead = stacks(paths, rows(), batch=batch, workers=workers, rejects=rejects)
    with _pool(_WRITERS) as writers, contextlib.closing(read_ahead) as stacked:
        for places, images in stacked:
            for row, answer in zip(places, _checked(make(images, places), places, paths)):
                writing.append(writers.submit(write, keys[row], answer))
            while len(writing) > batch:
                writing.popleft().result()
        for future in writing:
            future.result()
    return rejects


class _Processes:
    """Make what is missing, a part each.

    They start as soon as many images are known to be missing: while they start, which takes as long as to make a
    hundred or two, this process works out the keys of the others.
    """

    def __init__(self, make: Make | Apart, folder: Path, batch: int, workers: int, most: int) -> None:
        """`most`: images, if all of them are missing."""
        self._apart = make if isinstance(make, Apart) else None
        self._folder, self._batch = folder, batch
        self._workers = min(workers, -(-most // _ROWS_APART))
        self._opened = contextlib.ExitStack()
        self._pool: Executor | None = None
        self._waiting: list[tuple[str, str, Any]] = []  # key, path and parameter
        self._tasks: list[tuple[int, Future[dict[str, str]]]] = []  # rows, and why files of theirs could not be read

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._opened.close()
        if isinstance(error, BrokenProcessPool):
            raise RunStopped(KILLED) from None

    @property
    def begun(self) -> bool:
        return self._pool is not None

    def give(self, key: str, path: str, parameter: Any) -> None:
        self._waiting.append((key, path, parameter))
        if self._apart and self._workers > 1 and len(self._waiting) >= (_ROWS_APART if self.begun else MANY):
            self._submit()

    def done(self) -> Iterator[dict[str, str]]:
        """For each image that was given, when it is made: why files could not be read."""
        self._submit()
        for rows, task in self._tasks:
            yield from [task.result()] * rows

    def _submit(self) -> None:
        assert self._apart is not None
        if self._pool is None:
            self._pool = self._opened.enter_context(process_pool(self._workers))
        for start in range(0, len(self._waiting), _ROWS_APART):
            part = self._waiting[start : start + _ROWS_APART]
            self._tasks.append((len(part), self._pool.submit(_fill_part, part, self._apart, self._folder, self._batch)))
        self._waiting = []


def _fill_part(items: Sequence[tuple[str, str, Any]], make: Apart, folder: Path, batch: int) -> dict[str, str]:
    keys, paths, parameters = zip(*items)
    return _fill(zip(keys, range(len(keys))), paths, make.of(parameters), folder, batch, workers=1)


def stacks(
    paths: Sequence[str],
    rows: Iterable[int] | None = None,
    *,
    batch: int = 64,
    workers: int | None = None,
    rejects: dict[str, str],
) -> Generator[tuple[list[int], np.ndarray], None, None]:
    """(places in the list of paths, uint8 images (n, height, width, 3)): stacks of one size, from `batch` rows at most.

    Reads one batch ahead. Why a file cannot be read is put into `rejects`.
    """

    def load(row: int) -> tuple[int, np.ndarray | str]:
        try:
            return row, decode(read(paths[row]))
        except Rejected as rejected:
            return row, str(rejected)

    def grouped() -> Iterator[tuple[list[int], np.ndarray]]:
        while same:
            group = same.pop(next(iter(same)))
            yield [row for row, _ in group], np.stack([image for _, image in group])

    same: dict[tuple[int, ...], list[tuple[int, np.ndarray]]] = {}
    with _pool(workers) as pool:
        loaded = _ahead(pool, load, range(len(paths)) if rows is None else rows, batch)
        for count, (row, image) in enumerate(loaded, 1):
            if isinstance(image, str):
                rejects[paths[row]] = image
            else:
                same.setdefault(image.shape, []).append((row, image))
            if count % batch == 0:
                yield from grouped()
        yield from grouped()


def decode(contents: bytes) -> np.ndarray:
    """uint8 RGB (height, width, 3): grey in three channels, 16 bits as 8, transparency on white. Raises `Rejected`."""
    try:
        image = image_bytes.decode(contents, cv2.IMREAD_UNCHANGED)
    except files.Rejected as rejected:
        raise Rejected(str(rejected)) from None
    if image.dtype == np.uint16:
        image = np.rint(image / 257).astype(np.uint8)
    if image.dtype != np.uint8:
        raise Rejected(f"neither 8 nor 16 bits: its values are {image.dtype}")
    if image.ndim == 2:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)
    if image.shape[2] == 3:
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    planes = stain_pixels.planes(cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA)[None])[0]  # lays it on white: (3, pixels)
    return np.ascontiguousarray(planes.T).reshape(*image.shape[:2], 3)


def encode(image: np.ndarray) -> bytes:
    return cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes()


def _checked(
    answers: np.ndarray | Sequence[np.ndarray | None], places: list[int], paths: Sequence[str]
) -> Sequence[np.ndarray | None]:
    if len(answers) != len(places):
        raise ValueError(f"{len(answers)} images were made of {len(places)}, the first of them {paths[places[0]]}")
    for answer, row in zip(answers, places):
        if answer is not None and (answer.dtype != np.uint8 or answer.ndim != 3 or answer.shape[2] != 3):
            raise TypeError(f"uint8 (height, width, 3) must be made of {paths[row]}, not {answer.dtype} {answer.shape}")
    return answers  # type: ignore[return-value]  # an array is as good as a list of its rows


def _ahead(pool: Executor, function: Callable[[T], U], items: Iterable[T], count: int) -> Iterator[U]:
    """The function of each item, in order, never more than `count` of them before they are asked for."""
    waiting: collections.deque[Future[U]] = collections.deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > count:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@contextlib.contextmanager
def _pool(workers: int | None) -> Iterator[ThreadPoolExecutor]:
    """Threads that drop what they have not begun when the block is left by an error."""
    pool = ThreadPoolExecutor(workers or cores())
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)

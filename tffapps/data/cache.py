"""Images preprocessed once and kept on disk.

The key of an entry is made of the file's content, the function and its parameters, so a changed image or
setting is worked out anew and a moved image is found again. Entries appear whole or not at all: a killed run
leaves no half of one. They are not forced to the disk one by one, which takes longer than to make them: a power cut
may leave empty ones, which are made again.

    <folder>/3f/a2/3fa2….png        the function's answer
    <folder>/3f/a2/3fa2….json       why the function rejected the image

`cached_images` is for functions of one image; `tffapps.data.made` keeps those of whole stacks in the same way.
"""

import concurrent.futures
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from preprocessing.parallel import process_pool
from tffapps.errors import Rejected, RunStopped
from tffapps.files import replacing
from tffapps.progress import track

KILLED = (
    "a preprocessing process was killed, perhaps for want of memory; what it finished is kept: "
    "run the same command again, with fewer workers"
)

Function = Callable[..., bytes]  # (image bytes, **parameters) -> PNG bytes; may raise Rejected


def cached_images(
    paths: Sequence[Any],
    function: Function,
    parameters: dict[str, Any],
    folder: Path,
    *,
    workers: int | None = None,
    progress: bool = True,
    title: str = "",
) -> tuple[list[Path | None], dict[str, str]]:
    """The preprocessed image of each path (None where rejected), and the reason for each rejected path.

    `function` must be importable (other processes call it) and depend on nothing but its arguments; where its
    results change for another reason, raise its attribute `version`. `workers` is the number of processes, by
    default one for each core; 1 means this process. `title` is the bar's, by default the function's name.
    """
    if "<" in getattr(function, "__qualname__", "<"):
        raise TypeError(f"{function!r} cannot be called from another process: define it at a module's top level")
    folder = Path(folder)
    texts = [os.fspath(path) for path in paths]
    workers = workers or os.cpu_count() or 1
    keys, rejects = _keys(texts, function, parameters, workers)
    todo = {key: path for path, key in keys.items() if look_up(folder, key) is None}  # equal content once
    work = functools.partial(_fill, function=function, parameters=parameters, folder=folder)
    called = title or function.__name__
    for _ in track(_run(work, list(todo.items()), workers), len(todo), called, progress and bool(todo)):
        pass
    results: list[Path | None] = []
    for path in texts:
        entry = look_up(folder, keys[path]) if path in keys else None
        if entry is not None and entry.suffix == ".json":
            rejects[path] = json.loads(entry.read_text())["reason"]
        results.append(entry if entry is not None and entry.suffix == ".png" else None)
    return results, rejects


def _keys(
    paths: list[str], function: Function, parameters: dict[str, Any], workers: int
) -> tuple[dict[str, str], dict[str, str]]:
    """The key of each file that can be opened, and why the others cannot."""
    settings = {
        "function": f"{function.__module__}.{function.__qualname__}",
        "version": getattr(function, "version", None),
        "parameters": parameters,
    }
    prefix = prefix_of(settings)
    keys: dict[str, str] = {}
    rejects: dict[str, str] = {}

    def key(path: str) -> tuple[bool, str]:
        try:
            return True, key_of(prefix, path)
        except Rejected as rejected:
            return False, str(rejected)

    distinct = list(dict.fromkeys(paths))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:  # hashing lets go of the interpreter lock
        for path, (opened, text) in zip(distinct, pool.map(key, distinct)):
            (keys if opened else rejects)[path] = text
    return keys, rejects


def _run(work: Callable, items: list[tuple[str, str]], workers: int) -> Iterator[None]:
    """Does the work on all items, in whatever order they end."""
    if workers == 1 or len(items) <= 1:
        yield from map(work, items)
        return
    try:
        with process_pool(min(workers, len(items))) as pool:
            for done in concurrent.futures.as_completed([pool.submit(work, item) for item in items]):
                yield done.result()
    except BrokenProcessPool:
        raise RunStopped(KILLED) from None


def _fill(item: tuple[str, str], function: Function, parameters: dict[str, Any], folder: Path) -> None:
    key, path = item
    try:
        answer, suffix = function(Path(path).read_bytes(), **parameters), ".png"
    except Rejected as rejected:
        answer, suffix = json.dumps({"reason": " ".join(str(rejected).split())}).encode(), ".json"
    except Exception as error:
        raise RuntimeError(f"{function.__name__} failed on {path}: {type(error).__name__}: {error}") from error
    store(folder, key, suffix, answer)


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Rejected(f"cannot be opened: {error.strerror}") from None


def prefix_of(*settings: Any) -> bytes:
    """What keys depend on besides the file's content."""
    return b"".join(json.dumps(each, sort_keys=True).encode() + b"\0" for each in settings)


def key_of(prefix: bytes, path: str) -> str:
    return hashlib.sha256(prefix + read(path)).hexdigest()


def store(folder: Path, key: str, suffix: str, contents: bytes) -> None:
    with replacing(_entry(folder, key, suffix), "wb", lasting=False) as file:
        file.write(contents)


def look_up(folder: Path, key: str) -> Path | None:
    """The entry of this key, an image or a note, if there is one."""
    return next((entry for suffix in (".png", ".json") if _is_whole(entry := _entry(folder, key, suffix))), None)


def _is_whole(entry: Path) -> bool:
    try:
        return entry.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False


def _entry(folder: Path, key: str, suffix: str) -> Path:
    return folder / key[:2] / key[2:4] / f"{key}{suffix}"

"""`python -m preprocessing.knee IN OUT`: a whole folder of knee X-rays, on all cores.

    OUT/<as in IN>.png        the accepted images, prepared
    OUT/rejected.csv          path, reason
    OUT/steps/<as in IN>.png  with --steps: a strip with the picture of every step

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
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from preprocessing.knee_files import SUFFIXES, UserError, as_png, list_files, make_writable, read, write
from preprocessing.knee_settings import CONTRASTS, KneeRejected, KneeSettings

REJECTED, STEPS = "rejected.csv", "steps"
_SECONDS_BETWEEN_LINES = 10.0


@dataclasses.dataclass(frozen=True)
class _Job:
    source: Path
    target: Path
    strip: Path | None  # where the picture of the steps goes, if one is wanted
    settings: KneeSettings


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 done with no image accepted, 2 wrong use, 3 stopped halfway."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except UserError as error:
        return _say(f"error: {error}", 2)
    except BrokenProcessPool:
        return _say("stopped: a process was killed, perhaps for want of memory; try fewer --workers", 3)
    except OSError as error:  # reading is never the cause: an image that cannot be opened is rejected
        return _say(f"stopped: cannot write {error.filename or options.target}: {error.strerror}", 3)
    except KeyboardInterrupt:
        return _say("stopped by the user; run the same command again for the rest", 3)


def _parser() -> argparse.ArgumentParser:
    default = KneeSettings()
    parser = argparse.ArgumentParser(
        prog="python -m preprocessing.knee",
        description="Cuts the knee out of every X-ray below a folder and raises its contrast.",
    )
    parser.add_argument("source", metavar="IN", type=Path, help="folder of images, in any sub-folders")
    parser.add_argument("target", metavar="OUT", type=Path, help="folder for the results, laid out as IN is")
    parser.add_argument("--steps", action="store_true", help=f"also write every step's picture to OUT/{STEPS}")
    parser.add_argument(
        "--steps-limit",
        type=_positive,
        default=12,
        metavar="N",
        help="for how many images at most, spread over IN (default %(default)s)",
    )
    parser.add_argument("--contrast", choices=CONTRASTS, default=default.contrast, help="how (default %(default)s)")
    parser.add_argument("--workers", type=_positive, metavar="N", help="processes (default: one for each core)")
    return parser


def _positive(text: str) -> int:
    with contextlib.suppress(ValueError):
        if int(text) > 0:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def _run(options: argparse.Namespace) -> int:
    source, target = options.source, options.target
    files = list_files(source, target)
    strips = set(_spread(files, options.steps_limit)) if options.steps else set()
    settings = KneeSettings(contrast=options.contrast)
    jobs = [
        _Job(
            source / name,
            target / as_png(name),
            target / STEPS / as_png(name) if name in strips else None,
            settings,
        )
        for name in files
    ]
    _check_targets(jobs)
    make_writable(target)
    reasons = list(_track(_map(jobs, options.workers or os.cpu_count() or 1), len(jobs)))
    rejects = [(name.as_posix(), reason) for name, reason in zip(files, reasons) if reason]
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([("path", "reason"), *rejects])
    write(target / REJECTED, table.getvalue().encode(errors="surrogateescape"))

    print(f"{len(jobs)} files: {len(jobs) - len(rejects)} accepted, {len(rejects)} rejected")
    kinds = collections.Counter(reason.partition(":")[0] for _, reason in rejects)
    for kind, count in kinds.most_common():
        print(f"  {count} {kind}")
    if rejects:
        print(f"each with its reason in {target / REJECTED}")
    if len(rejects) == len(jobs):
        return _say(f"no image was accepted; see {target / REJECTED}", 1)
    return 0


def _check_targets(jobs: list[_Job]) -> None:
    """No result may take another's place, such as that of x.jpg the one of x.jpg.png."""
    seen: dict[Path, Path] = {}
    for job in jobs:
        for path in filter(None, (job.target, job.strip)):
            if path in seen:
                raise UserError(f"{seen[path]} and {job.source} would both become {path}; rename one")
            seen[path] = job.source


def _spread(files: list[Path], count: int) -> list[Path]:
    """That many images, evenly spaced: the first ones would all be of one class."""
    images = [file for file in files if file.suffix.lower() in SUFFIXES]
    count = min(count, len(images))
    return [images[index * len(images) // count] for index in range(count)]


def _map(jobs: list[_Job], workers: int) -> Iterator[str | None]:
    """The reason for each job's rejection, None where accepted, in the jobs' order."""
    workers = min(workers, len(jobs))
    if workers == 1:
        yield from map(_process, jobs)
        return
    # Spawned, not forked: a fork of a process with other libraries' threads can hang.
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_start_worker
    )
    try:
        yield from pool.map(_process, jobs, chunksize=max(1, min(16, len(jobs) // (4 * workers))))
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Runs in each process: one thread for OpenCV, Ctrl-C left to the parent, none outlives a killed parent."""
    import cv2

    cv2.setNumThreads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _process(job: _Job) -> str | None:
    from preprocessing import knee, knee_strip

    try:
        if job.source.suffix.lower() not in SUFFIXES:
            raise KneeRejected(f"not an image: its name ends in {job.source.suffix or 'nothing'!r}")
        image = knee.decode(read(job.source))
        pictures = knee.steps(image, job.settings)
        reason = knee.check(image, pictures["mask"], job.settings)
        if job.strip is not None:  # of a rejected image too: it shows what went wrong
            write(job.strip, knee.encode(knee_strip.strip(pictures)))
        if reason:
            raise KneeRejected(reason)
    except KneeRejected as rejected:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            job.target.unlink()  # an earlier run's, when the image was accepted
        return " ".join(str(rejected).split())
    write(job.target, knee.encode(pictures["contrast"]))
    return None


def _track(items: Iterable[str | None], total: int) -> Iterator[str | None]:
    """A bar on a terminal, now and then a line in a log file."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        yield from tqdm(items, total=total, desc="knee", unit="image", leave=False)
        return
    last = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        if count == total or time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"knee: {count}/{total}", file=sys.stderr, flush=True)


def _say(text: str, status: int) -> int:
    print(f"preprocessing.knee: {text}", file=sys.stderr)
    return status

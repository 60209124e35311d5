"""`python -m preprocessing.knee IN OUT`: a whole folder of knee X-rays, on all cores.

    OUT/<as in IN>.png        the accepted images, prepared
    OUT/rejected.csv          path, reason
    OUT/steps/<as in IN>.png  with --steps: a strip with the picture of every step

Every file appears whole or not at all, and a second run writes the same files again.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import dataclasses
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from preprocessing import command
from preprocessing.errors import Rejected
from preprocessing.files import as_png, check_distinct, is_named_image, list_files, make_writable, read_image, write
from preprocessing.knee_settings import CONTRASTS, KneeRejected, KneeSettings
from preprocessing.parallel import process_pool
from preprocessing.parser import Parser
from preprocessing.progress import track

NAME = "knee"
REJECTED, STEPS = "rejected.csv", "steps"


@dataclasses.dataclass(frozen=True)
class _Job:
    source: Path
    target: Path
    strip: Path | None  # where the picture of the steps goes, if one is wanted
    settings: KneeSettings


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 done with no image accepted, 2 wrong use, 3 stopped halfway."""
    options = _parser().parse_args(arguments)
    return command.run(NAME, _run, options)


def _parser() -> argparse.ArgumentParser:
    default = KneeSettings()
    parser = Parser(
        prog=f"python -m preprocessing.{NAME}",
        description="Cuts the knee out of every X-ray below a folder and raises its contrast.",
    )
    parser.add_argument("source", metavar="IN", type=Path, help="folder of images, in any sub-folders")
    parser.add_argument("target", metavar="OUT", type=Path, help="folder for the results, laid out as IN is")
    parser.add_argument("--steps", action="store_true", help=f"also write every step's picture to OUT/{STEPS}")
    parser.add_argument(
        "--steps-limit",
        type=command.positive,
        default=12,
        metavar="N",
        help="for how many images at most, spread over IN (default %(default)s)",
    )
    parser.add_argument("--contrast", choices=CONTRASTS, default=default.contrast, help="how (default %(default)s)")
    parser.add_argument("--workers", type=command.positive, metavar="N", help="processes (default: one for each core)")
    return parser


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
    check_distinct((job.source, path) for job in jobs for path in (job.target, job.strip) if path)
    make_writable(target)
    reasons = list(track(_map(jobs, options.workers or os.cpu_count() or 1), len(jobs), NAME))
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
        return command.say(NAME, f"no image was accepted; see {target / REJECTED}", 1)
    return 0


def _spread(files: list[Path], count: int) -> list[Path]:
    """That many images, evenly spaced: the first ones would all be of one class."""
    images = [file for file in files if is_named_image(file)]
    count = min(count, len(images))
    return [images[index * len(images) // count] for index in range(count)]


def _map(jobs: list[_Job], workers: int) -> Iterator[str | None]:
    """The reason for each job's rejection, None where accepted, in the jobs' order."""
    workers = min(workers, len(jobs))
    if workers == 1:
        yield from map(_process, jobs)
        return
    with process_pool(workers) as pool:
        yield from pool.map(_process, jobs, chunksize=max(1, min(16, len(jobs) // (4 * workers))))


def _process(job: _Job) -> str | None:
    from preprocessing import knee, knee_strip

    try:
        image = knee.decode(read_image(job.source))
        pictures = knee.steps(image, job.settings)
        reason = knee.check(image, pictures["mask"], job.settings)
        if job.strip is not None:  # of a rejected image too: it shows what went wrong
            write(job.strip, knee.encode(knee_strip.strip(pictures)))
        if reason:
            raise KneeRejected(reason)
    except Rejected as rejected:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            job.target.unlink()  # an earlier run's, when the image was accepted
        return " ".join(str(rejected).split())
    write(job.target, knee.encode(pictures["contrast"]))
    return None

"""One job, done in a process of its own: `python -m tffapps.site.job FOLDER ASKING`.

It is started in a sandbox, and ends with the site. The folder holds the request; the answer, and what is made, is put
beside it. The site's rows, a CSV, come on standard input.
"""

import re
import shutil
import sys
import traceback
from pathlib import Path

import pandas as pd

from tffapps import cli
from tffapps.errors import Rejected, RunStopped, UserError
from tffapps.files import replacing
from tffapps.site import jobs as site_jobs
from tffapps.wire import jobs
from tffapps.wire.messages import Message

REQUEST, ANSWER, FAILURE, FILES = "request", "answer", "failure", "files"


def main(folder: Path, asking: str) -> int:
    """Leaves an answer, which is kept, or a failure, after which the same may be asked again."""
    cli.quiet()
    shutil.rmtree(folder / FILES, ignore_errors=True)
    (folder / FILES).mkdir()
    try:
        request = Message.from_bytes((folder / REQUEST).read_bytes(), "the coordinator")
        rows = pd.read_csv(sys.stdin, dtype=str, keep_default_na=False)
        answer = site_jobs.find(request.fields.get(jobs.JOB))(request, rows, folder / FILES)
    except (UserError, RunStopped, Rejected) as error:
        return _failed(folder, asking, str(error))
    except Exception as error:
        traceback.print_exc()
        return _failed(folder, asking, f"{type(error).__name__}; the site's log says more")
    with replacing(folder / ANSWER, "wb") as out:
        out.write(answer.to_bytes())
    return 0


def _failed(folder: Path, asking: str, why: str) -> int:
    """The site's log has it all; names of files do not leave the site."""
    print(why, file=sys.stderr)
    words = {jobs.ERROR: re.sub(r"\S*/\S*", "…", " ".join(why.split()))[:500], jobs.ASKING: asking}
    with replacing(folder / FAILURE, "wb") as out:
        out.write(Message(words).to_bytes())
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))

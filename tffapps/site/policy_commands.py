"""The commands of a site's policy and of its log."""

import argparse
from pathlib import Path

_POLICY = "print the policy that a site has if it is given none; `serve --policy FILE` takes another"
_LOG = "show a site's log of requests and answers, if no line was changed, removed or cut off"


def add(commands: argparse._SubParsersAction) -> None:
    policy = commands.add_parser("policy", help=_POLICY, description=_POLICY, allow_abbrev=False)
    policy.set_defaults(work=_policy)

    log = commands.add_parser("log", help=_LOG, description=_LOG, allow_abbrev=False)
    log.add_argument("folder", type=Path, metavar="FOLDER", help="data/site-logs/<name>, where the site serves")
    meaning = "what somebody else knows of it, such as a run's site_logs.json: so many lines, the last with this hash"
    log.add_argument("--known", default="", metavar="LINES:HASH", help=meaning)
    log.add_argument("--refused", action="store_true", help="only what was refused or failed")
    log.set_defaults(work=_log)


def _policy(options: argparse.Namespace) -> None:
    from tffapps.site import policy

    print(policy.default_text(), end="")


def _log(options: argparse.Namespace) -> None:
    from tffapps.site import log

    head = log.check(options.folder, log.parse_head(options.known) if options.known else None)
    for line in log.read(options.folder):
        if not options.refused or line["decision"] != "passed":
            print(log.shown(line))
    print(f"{head.lines} lines, none changed, removed or cut off; the last is {head.lines}:{head.hash}")

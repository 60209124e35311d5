"""Pseudonyms of patients: told apart on this machine, and no name, date or number of theirs in them.

A pseudonym is the beginning of an HMAC-SHA256 of the patient's ID, with a salt that is drawn once and kept in
`data/subject-salt` (`tffapps.home`), readable by its owner alone. Without the salt nobody can try IDs out; with another
salt, at another site, the same patient has another pseudonym.
"""

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

from tffapps.errors import UserError
from tffapps.home import data_folder

SALT = "subject-salt"
_DIGITS = 16
_FORM = re.compile(r"[0-9a-f]{64}")


def pseudonym(owner: str, salt: bytes) -> str:
    """What a patient is called in tables."""
    return "p" + hmac.new(salt, owner.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_DIGITS]


def salt() -> bytes:
    """This machine's, drawn when it is first asked for."""
    file = data_folder() / SALT
    try:
        if not file.exists():
            _draw(file)
        if file.stat().st_mode & 0o077:
            file.chmod(0o600)
        text = file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise UserError(f"{file}: cannot be used ({why}): subjects need it; check its permissions") from None
    if not _FORM.fullmatch(text):
        raise UserError(f"{file}: not the salt that was written; remove it, and subjects get other pseudonyms")
    return bytes.fromhex(text)


def _draw(file: Path) -> None:
    """Whoever comes first writes it, whole, and nobody after."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as out:
            out.write(secrets.token_hex(32) + "\n")
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()

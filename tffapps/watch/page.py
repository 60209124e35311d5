"""The live page: one file without anything from elsewhere. What runs say comes as JSON and becomes text."""

import base64
import hashlib

from tffapps.watch.script import SCRIPT
from tffapps.watch.style import CSS

_HTML = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tffapps watch</title>
<link rel="icon" href="data:,">
<style>{CSS}</style>
</head>
<body>
<header>
<h1>Runs in <span id="folder">…</span></h1>
<p class="told" id="told" aria-live="polite">asking</p>
<form id="filter">
<select id="state" aria-label="which runs">
<option value="">all runs</option><option>running</option><option>stopped</option><option>finished</option>
</select>
<input id="words" type="search" placeholder="words of their names" aria-label="words of their names">
</form>
</header>
<main id="runs"></main>
<noscript><p>This page needs its script, which comes with it.</p></noscript>
<script>{SCRIPT}</script>
</body>
</html>
"""
PAGE = _HTML.encode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Only this script and this style, by their hashes: markup that slipped in would do nothing.
CONTENT_POLICY = (
    f"default-src 'none'; script-src {_hash(SCRIPT)}; style-src {_hash(CSS)}; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

"""The page's style: one column of text, tables that scroll by themselves, light and dark, screen and paper."""

CSS = """
:root {
  --ink: #1c1d20; --soft: #5f636b; --faint: #6f747d; --line: #dfe1e5; --ground: #fdfdfc; --card: #f5f5f2;
  --accent: #1f5f8b; --real: #7a4a12; --real-ground: #fbf1e2; --paper: #f1f1ec; --mark: #eaf2f8;
  --good: #1d6b3c; --bad: #a03028;
  color-scheme: light dark;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e5e8; --soft: #a4a8b0; --faint: #8f949d; --line: #34373d; --ground: #16181b; --card: #1e2125;
    --accent: #86bfe6; --real: #e5b877; --real-ground: #33291a; --paper: #22252a; --mark: #1c2b37;
    --good: #7cc795; --bad: #ec8f85;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: 2px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
main { padding: 1.5rem 1.1rem 4rem; max-width: 74rem; min-width: 0; }
nav { padding: 1.1rem 1.1rem 0; font-size: .875rem; }
nav p { margin: 0 0 .4rem; font-weight: 650; }
nav ul { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
@media (min-width: 68rem) {
  body { display: grid; grid-template-columns: 14rem minmax(0, 1fr); }
  nav { position: sticky; top: 0; align-self: start; height: 100vh; padding: 2.2rem 1rem 1rem 1.6rem;
    border-right: 1px solid var(--line); overflow-y: auto; }
  nav ul { display: block; }
  nav li { margin: .5rem 0; line-height: 1.35; }
  main { padding: 2rem 2.5rem 5rem; }
}
h1, h2, h3, h4 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.9rem; font-weight: 650; letter-spacing: -.015em; margin: 0 0 .8rem; }
h2 { font-size: 1.45rem; font-weight: 650; letter-spacing: -.01em; margin: 0 0 .6rem; }
h3 { font-size: 1.1rem; font-weight: 650; margin: 0 0 .6rem; }
h4 { font-size: 1rem; font-weight: 600; margin: 2rem 0 .35rem; }
p { margin: 0 0 .8rem; max-width: 44rem; }
code { font: .87em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  overflow-wrap: anywhere; }
article { margin-top: 3.2rem; padding-top: 1.6rem; border-top: 1px solid var(--line); }
.place { margin-top: 1.8rem; padding-left: 1rem; border-left: 3px solid var(--line); }
.place + .place { margin-top: 3.5rem; }
.place.real { border-left-color: var(--real); }
.command code { background: var(--card); padding: .25rem .5rem; border-radius: 4px; }
.note, .ran, .missing, figcaption { color: var(--soft); font-size: .875rem; }
.note { margin-bottom: .5rem; }
.ran { margin: .45rem 0 0; font-size: .8rem; max-width: 60rem; }
.missing { border-left: 3px solid var(--faint); padding-left: .7rem; max-width: 60rem; margin-top: 1rem; }
.problem { border-left: 3px solid var(--bad); padding-left: .7rem; font-size: .9rem; }
.problem ul { margin: .2rem 0; padding-left: 1.2rem; }
.says { padding-left: 1.1rem; margin: 0 0 1rem; max-width: 52rem; font-size: .925rem; }
.says li { margin: .25rem 0; }
.file { font: .78rem/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-weight: 400; color: var(--faint); overflow-wrap: anywhere; }
a.file { color: var(--accent); text-decoration: none; }
a.file:hover { text-decoration: underline; }
.badge { display: inline-block; font-size: .74rem; font-weight: 600; line-height: 1.5; padding: 0 .45rem;
  border-radius: 3px; border: 1px solid var(--line); color: var(--soft); background: var(--card); white-space: nowrap; }
.badge.real { color: var(--real); background: var(--real-ground); border-color: currentColor; }
.box { overflow-x: auto; width: fit-content; max-width: 100%; scrollbar-width: thin;
  border-top: 1px solid var(--line); border-bottom: 1px solid var(--line);
  /* a shade at an edge beyond which there is more: the ground moves with the table and covers it at the end */
  background: linear-gradient(to right, var(--ground) 1.5rem, transparent 2.5rem) local,
    linear-gradient(to left, var(--ground) 1.5rem, transparent 2.5rem) local,
    linear-gradient(to right, var(--line), transparent 1rem), linear-gradient(to left, var(--line), transparent 1rem); }
table { border-collapse: separate; border-spacing: 0; font-size: .85rem; line-height: 1.4;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: baseline; }
td, tbody th { white-space: nowrap; border-top: 1px solid var(--line); }
tbody th { font-weight: 500; position: sticky; left: 0; background: var(--ground); z-index: 1; }
thead th { color: var(--soft); font-weight: 600; font-size: .8rem; vertical-align: bottom; min-width: 3.4rem; }
thead th:first-child { padding-left: .2rem; }
tbody th { padding-left: .2rem; }
.over { padding-bottom: 0; }
.over.paper { text-align: left; font-style: italic; font-weight: 500; }
.number { text-align: right; }
td.paper, th.paper { background: var(--paper); color: var(--soft); }
.own td, .own th { background: var(--mark); }
.own td.paper { background: color-mix(in srgb, var(--mark) 50%, var(--paper)); }
.own th { font-weight: 650; }
.spread { color: var(--faint); font-size: .92em; }
.muted, .count { color: var(--faint); font-weight: 400; }
.summary, .summary table { width: 100%; }
.summary td, .summary th { white-space: normal; vertical-align: top; }
.summary td { min-width: 7rem; }
.summary tbody th { min-width: 5.5rem; max-width: 11rem; font-weight: 400; }
.summary .number, .summary .badge, .summary .spread { white-space: nowrap; }
.summary .who { display: block; font-weight: 500; line-height: 1.3; }
.summary .group th { position: static; max-width: none; padding-top: 1.1rem; font-weight: 600; border-top: 0; }
.summary .group span { position: sticky; left: .2rem; }
.summary .group .badge, .summary .group .file { position: static; margin: 0 .25rem; }
.summary td.number { min-width: 4.6rem; }
.summary .verdict { display: block; }
.verdict.ahead { color: var(--good); } .verdict.behind { color: var(--bad); } .verdict { color: var(--soft); }
.forest { width: 100%; padding: .4rem 0; }
.forest svg.wide { display: block; min-width: 44rem; }
.forest svg.narrow { display: none; }
details { margin: .9rem 0; border-top: 1px solid var(--line); padding-top: .6rem; }
summary { cursor: pointer; font-size: .925rem; }
details[open] > summary { margin-bottom: .6rem; }
summary h3 { display: inline; }
details.place { border-top: 0; padding-top: 0; }
.figures { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.4rem; margin: 2rem 0 1rem;
  align-items: start; grid-auto-flow: dense; }
figure { margin: 0; }
figure.wide { grid-column: 1 / -1; }
.paper-white { background: #fff; border: 1px solid var(--line); border-radius: 4px; padding: .4rem; overflow-x: auto; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption { margin-top: .35rem; }
@media screen and (max-width: 48rem) {
  h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; }
  .figures { grid-template-columns: minmax(0, 1fr); }
  .forest svg.wide { display: none; }
  .forest svg.narrow { display: block; margin: 0 auto; }
  .place { padding-left: .7rem; }
  figure.wide img { max-width: none; width: 44rem; }
}
@media print {
  :root { --ink: #000; --soft: #333; --faint: #555; --line: #bbb; --ground: #fff; --card: #fff; --paper: #f2f2f2;
    --mark: #eef3f7; --accent: #000; --real: #5b3508; --real-ground: #fff; --good: #000; --bad: #000; }
  html { font-size: 9.5pt; }
  body { display: block; }
  nav { display: none; }
  main { max-width: none; padding: 0; }
  article { break-before: page; border: 0; margin: 0; padding: 0; }
  header + article { break-before: auto; margin-top: 1.5rem; }
  .box, .paper-white { overflow: visible; }
  .paper-white { padding: 0; border: 0; }
  figure img { max-height: 22cm; width: auto; }
  table { font-size: 6.8pt; }
  th, td { padding: .15rem .3rem; }
  thead th { min-width: 0; font-size: 6.4pt; }
  td, tbody th { white-space: normal; }
  tr, figure, h3, h4 { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  tbody th { position: static; }
  details:not([open]) { display: none; }
  a { text-decoration: none; }
}
"""

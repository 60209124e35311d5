"""The pages' style: paper, ink and one colour; light and dark; one column on a phone."""

CSS = """
:root {
  --ink: #24211d; --soft: #6b645b; --line: #e2dbcf; --ground: #f7f3ec; --card: #fffdf9; --accent: #9a3b26;
  --accent-ink: #ffffff; --good: #2f6b45; --wash: #f1e9dd; color-scheme: light dark;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #ece7df; --soft: #b0a79a; --line: #3d3831; --ground: #191714; --card: #221f1b; --accent: #e08a6d;
    --accent-ink: #1d130f; --good: #86c79c; --wash: #2b2722; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
h1, h2, h3, .brand { font-family: "Iowan Old Style", Palatino, "Palatino Linotype", "P052", Georgia, "Noto Serif",
  "DejaVu Serif", serif; font-weight: 600; line-height: 1.2; overflow-wrap: anywhere; }
h1 { font-size: 2rem; margin: 0 0 .9rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; margin: 0 0 .6rem; }
h3 { font-size: 1.1rem; margin: 0; }
p { margin: 0 0 .8rem; }
a { color: var(--accent); }
header { border-bottom: 1px solid var(--line); background: var(--card); }
header > div, main, footer { max-width: 1080px; margin: 0 auto; padding: 0 1.25rem; }
header > div { display: flex; flex-wrap: wrap; align-items: center; gap: .3rem 1.4rem; min-height: 3.6rem; }
.brand { font-size: 1.2rem; color: var(--ink); text-decoration: none; margin-right: auto; }
nav { display: flex; flex-wrap: wrap; align-items: center; gap: .2rem 1.2rem; }
nav a { color: var(--soft); text-decoration: none; padding: .55rem 0; }
nav a[aria-current], nav a:hover { color: var(--accent); }
nav form { margin: 0; }
main { padding-top: 2.2rem; padding-bottom: 3rem; }
footer { color: var(--soft); font-size: .85rem; padding-bottom: 2rem; }
.lead { font-size: 1.08rem; color: var(--soft); max-width: 44rem; }
.two { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.35fr); gap: 2.2rem; align-items: start; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.25rem; }
.card + .card, .two + .card, .stack > * + * { margin-top: 1rem; }
.two > .card { margin-top: 0; }
.drop { display: block; border: 2px dashed var(--line); border-radius: 12px; background: var(--card);
  padding: 1.6rem 1rem; text-align: center; cursor: pointer; }
.drop:hover, .drop.over, .drop:focus-within { border-color: var(--accent); }
.drop input { display: block; width: 100%; margin: 1rem auto 0; }
.drop img { display: block; max-width: 100%; max-height: 24rem; margin: 0 auto; border-radius: 8px; }
.drop svg { width: 44px; height: 44px; stroke: var(--accent); fill: none; stroke-width: 1.4; }
.scripted .drop input { position: absolute; width: 1px; height: 1px; margin: 0; opacity: 0; overflow: hidden; }
.fine { color: var(--soft); font-size: .88rem; margin: .6rem 0 0; }
.problem, .done { border-left: 4px solid var(--accent); background: var(--wash); padding: .7rem .9rem;
  border-radius: 0 8px 8px 0; }
.done { border-color: var(--good); }
button, .button { font: inherit; font-weight: 600; border: 1px solid var(--accent); border-radius: 8px;
  background: var(--accent); color: var(--accent-ink); padding: .6rem 1.1rem; min-height: 2.75rem; cursor: pointer;
  text-decoration: none; display: inline-block; }
button.quiet, .button.quiet { background: transparent; color: var(--accent); font-weight: 500; }
nav button { border: 0; background: transparent; color: var(--soft); font-weight: 400; padding: .55rem 0; }
button:disabled { opacity: .55; cursor: progress; }
.wide { width: 100%; margin-top: .9rem; }
label.field { display: block; margin: 0 0 .9rem; font-weight: 600; }
.field small { display: block; font-weight: 400; color: var(--soft); }
input[type=text], input[type=password], textarea, select { font: inherit; color: inherit; width: 100%; display: block;
  margin-top: .3rem; background: var(--ground); border: 1px solid var(--line); border-radius: 8px;
  padding: .6rem .7rem; }
.field input, .field textarea, .field select { font-weight: 400; }
textarea { min-height: 8rem; resize: vertical; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
ol.artists { list-style: none; margin: 0; padding: 0; display: grid; gap: .9rem; }
ol.artists > li { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1rem 1.1rem;
  display: grid; grid-template-columns: 2.2rem minmax(0, 1fr); gap: 0 .6rem; }
ol.artists > li.none { background: transparent; border-style: dashed; }
.place { font: 600 1.35rem/1.25 "Iowan Old Style", Palatino, "P052", Georgia, "DejaVu Serif", serif;
  color: var(--accent); }
.none .place { color: var(--soft); }
.row { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: .1rem 1rem; }
.score { color: var(--soft); font-size: .92rem; font-variant-numeric: tabular-nums; }
progress { -webkit-appearance: none; appearance: none; width: 100%; height: 6px; border: 0; border-radius: 3px;
  background: var(--wash); display: block; margin: .45rem 0 .6rem; overflow: hidden; color: var(--accent); }
progress::-webkit-progress-bar { background: var(--wash); }
progress::-webkit-progress-value { background: var(--accent); border-radius: 3px; }
progress::-moz-progress-bar { background: var(--accent); }
.words { margin: 0 0 .6rem; overflow-wrap: anywhere; }
.pictures { display: flex; gap: .5rem; margin: 0 0 .8rem; }
.pictures img { width: 6.5rem; height: 6.5rem; object-fit: cover; border-radius: 8px; background: var(--wash);
  min-width: 0; }
.large .pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr)); }
.large .pictures img { width: 100%; height: auto; max-height: 28rem; object-fit: contain; }
fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
legend { font-weight: 600; padding: 0; margin-bottom: .5rem; }
.likert { display: grid; grid-template-columns: repeat(5, minmax(0, 1fr)); gap: .4rem; margin-bottom: .8rem; }
.likert label { border: 1px solid var(--line); border-radius: 8px; padding: .5rem .3rem; text-align: center;
  font-size: .82rem; line-height: 1.25; cursor: pointer; overflow-wrap: anywhere; }
.likert input { display: block; margin: 0 auto .25rem; accent-color: var(--accent); width: 1.1rem; height: 1.1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .45rem .7rem .45rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; }
td form { text-align: right; }
td button.quiet { min-height: 2.2rem; padding: .25rem .8rem; }
code, pre { font: .88em/1.5 ui-monospace, "DejaVu Sans Mono", monospace; background: var(--wash); border-radius: 6px; }
code { padding: .1em .35em; overflow-wrap: anywhere; }
pre { padding: .8rem .9rem; overflow-x: auto; margin: 0 0 .8rem; }
[hidden] { display: none !important; }
@media (max-width: 760px) {
  h1 { font-size: 1.6rem; }
  main { padding-top: 1.3rem; }
  header > div, main, footer { padding-left: 1rem; padding-right: 1rem; }
  header > div { padding-top: .6rem; }
  .two { grid-template-columns: minmax(0, 1fr); gap: 1.3rem; }
  .pictures img { flex: 1 1 0; width: 0; height: 6rem; }
  .large .pictures img { width: 100%; height: auto; }
  .likert { grid-template-columns: 1fr; }
  .likert label { display: flex; gap: .6rem; text-align: left; padding: .55rem .7rem; font-size: .95rem; }
  .likert input { margin: 0; }
}
"""

"""The live page's style: cards in as many columns as fit, light and dark."""

CSS = """
:root {
  --ink: #1c1d20; --soft: #5c6068; --line: #dcdee2; --ground: #fbfbfa; --card: #ffffff; --accent: #1f5f8b;
  --good: #1d6b3c; --bad: #a03028; --calm: #6a6e76;
  color-scheme: light dark;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e5e8; --soft: #a7abb3; --line: #363a41; --ground: #15171a; --card: #1d2024; --accent: #86bfe6;
    --good: #7cc795; --bad: #ec8f85; --calm: #a0a4ac;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; padding: 1rem; background: var(--ground); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.25rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: .98rem; margin: 0; overflow-wrap: anywhere; }
.told { margin: .2rem 0 .8rem; color: var(--soft); }
.told.away { color: var(--bad); }
form { display: flex; flex-wrap: wrap; gap: .5rem; margin: 0 0 1rem; }
input, select, button { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; padding: .35rem .6rem; min-height: 2.4rem; }
input { flex: 1 1 10rem; max-width: 24rem; min-width: 0; }
button { cursor: pointer; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
#runs { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(min(21rem, 100%), 1fr)); }
article { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--calm);
  border-radius: 8px; padding: .75rem .85rem; min-width: 0; }
article.running { border-left-color: var(--accent); }
article.finished { border-left-color: var(--good); }
article.stopped { border-left-color: var(--bad); }
article.open { grid-column: 1 / -1; }
article.open > svg { display: none; }
article.open > dl { max-width: 26rem; }
[hidden] { display: none !important; }
.head { display: flex; justify-content: space-between; align-items: baseline; gap: .6rem; }
.state { font-size: .82rem; font-weight: 600; color: var(--calm); }
.running .state { color: var(--accent); }
.finished .state { color: var(--good); }
.stopped .state { color: var(--bad); }
.labels, .fine { color: var(--soft); font-size: .85rem; margin: .15rem 0 .5rem; overflow-wrap: anywhere; }
.problem { color: var(--bad); font-size: .88rem; margin: .3rem 0; overflow-wrap: anywhere; }
progress { width: 100%; height: .55rem; accent-color: var(--accent); display: block; }
.row { display: flex; justify-content: space-between; gap: .6rem; font-size: .9rem; margin: .25rem 0; }
.row > * { font-variant-numeric: tabular-nums; }
.row > :last-child { text-align: right; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg polyline { fill: none; stroke: var(--accent); stroke-width: 1.6; vector-effect: non-scaling-stroke;
  stroke-linejoin: round; }
svg circle { fill: var(--accent); }
svg line { stroke: var(--line); vector-effect: non-scaling-stroke; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .1rem .8rem; margin: .5rem 0 .6rem; font-size: .87rem; }
dt { color: var(--soft); }
dd { margin: 0; text-align: right; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.curves { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(18rem, 100%), 1fr));
  margin-top: .8rem; }
figure { margin: 0; min-width: 0; }
figcaption { font-size: .85rem; overflow-wrap: anywhere; }
.ends { display: flex; justify-content: space-between; color: var(--soft); font-size: .78rem; }
"""

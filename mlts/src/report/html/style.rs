//! The page's style sheet: light and dark by the reader's setting, black and white on paper.

/// Colours are Okabe and Ito's, which people of all kinds of sight tell apart.
pub(super) const STYLE: &str = "
:root{color-scheme:light dark;--bg:#fff;--fg:#1a1a1a;--soft:#666;--line:#d5d5d5;--card:#f6f6f6;--good:#00664b;--bad:#b03a00;--none:#6b6b6b;--a:#0072b2;--b:#d55e00;--c:#777;--d:#9a6f93}
@media(prefers-color-scheme:dark){:root{--bg:#16181b;--fg:#e8e8e8;--soft:#a5a5a5;--line:#3a3d42;--card:#202328;--good:#3fc79a;--bad:#ff9a5c;--none:#a5a5a5;--a:#56b4e9;--b:#e69f00;--c:#999;--d:#cc79a7}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:1.2rem}h1{margin:.2rem 0;font-size:1.5rem}h2{margin:2rem 0 .5rem;font-size:1.2rem}h3{margin:1rem 0 .3rem;font-size:1rem}
a{color:inherit}.sub{color:var(--soft)}.verdict{font-size:2.2rem;font-weight:700;margin:.4rem 0}.good{color:var(--good)}.bad{color:var(--bad)}.none{color:var(--none)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.7rem;margin:1rem 0}.tile{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.7rem}.tile b{display:block;font-size:1.5rem}.tile span{color:var(--soft)}
.strip{display:flex;flex-wrap:wrap;gap:3px;margin:.4rem 0}.strip a{min-width:1.7rem;text-align:center;border:1px solid currentColor;border-radius:3px;text-decoration:none;font-weight:700;padding:0 .2rem}.strip a.bad{background:var(--bad);color:var(--bg);border-color:var(--bad)}
.warn{border-left:4px solid var(--bad);background:var(--card);padding:.4rem .7rem;margin:.6rem 0}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin:.4rem 0;width:100%}th,td{border-bottom:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}th{font-weight:600;color:var(--soft)}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.hash{font:11px monospace;word-break:break-all}
table.wide{font-size:12.5px}table.wide td,table.wide th{padding:.2rem .3rem}.name{overflow-wrap:anywhere;min-width:9rem}.wrong{display:flex;flex-wrap:wrap;gap:.6rem;margin:.4rem 0}figure{margin:0;width:9rem;font-size:12px}figure img{display:block;max-width:96px;max-height:96px}details{border:1px solid var(--line);border-radius:.5rem;padding:.4rem .7rem;margin:.4rem 0}summary{cursor:pointer;font-weight:600}pre{background:var(--card);border:1px solid var(--line);padding:.5rem;overflow-x:auto;white-space:pre-wrap;word-break:break-word;font-size:12px;max-height:24rem}
svg{max-width:100%;height:auto}svg text{fill:var(--fg);font:11px system-ui,sans-serif}dt{font-weight:600}dd{margin:0 0 .4rem 1rem}
@media print{:root{--bg:#fff;--fg:#000;--soft:#333;--line:#999;--card:#fff;--good:#000;--bad:#000;--none:#555;--a:#000;--b:#555;--c:#999;--d:#777}main{max-width:none;padding:0}details{break-inside:avoid}details::details-content{content-visibility:visible;block-size:auto}pre{max-height:none}.strip a.bad{background:#000;color:#fff}}
";

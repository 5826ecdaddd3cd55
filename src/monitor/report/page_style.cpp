// The style of a report: one column on a phone, light and dark as the reader's system has it.
#include "monitor/report/page.hpp"

namespace crema {

const char* const kReportStyle = R"css(
:root{color-scheme:light dark;--paper:#ffffff;--card:#f6f8fa;--text:#1b1f24;--faint:#57606a;--line:#d0d7de;--grid:#e4e8ec;--link:#0550ae;
--good:#1a7f37;--bad:#b42318;--warn:#7d4e00;--warn-paper:#fff4d6;--shade:#1f232847;
--k1:#0b62a8;--k2:#c2410c;--k3:#0f766e;--k4:#8e2bd0;--k5:#8a6100;--k6:#be185d;--k7:#3f6f0b;--k8:#475569}
@media (prefers-color-scheme:dark){:root{--paper:#0f1419;--card:#171d25;--text:#e6eaef;--faint:#9aa6b2;--line:#30363d;--grid:#232a33;--link:#79b8ff;
--good:#56d364;--bad:#ff8b80;--warn:#f2cc60;--warn-paper:#2d2410;--shade:#c9d1d966;
--k1:#5aa9f5;--k2:#fb923c;--k3:#2dd4bf;--k4:#c58bff;--k5:#facc15;--k6:#f472b6;--k7:#a3e635;--k8:#a3b1c2}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Helvetica,Arial,sans-serif}
main,header,footer{max-width:1280px;margin:0 auto;padding:0 20px}
h1{font-size:1.6rem;line-height:1.25;margin:18px 0 4px;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:0 0 10px}
h3{font-size:.95rem;margin:0}
p{margin:.4em 0}
a{color:var(--link)}
code,pre{font:12.5px/1.45 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono","Liberation Mono",monospace}
section{border-top:1px solid var(--line);padding:20px 0 14px;scroll-margin-top:8px}
nav ul{display:flex;flex-wrap:wrap;gap:4px 16px;list-style:none;margin:12px 0 14px;padding:0}
.faint{color:var(--faint)}.good{color:var(--good)}.bad{color:var(--bad)}
.state{display:inline-block;border:1.5px solid currentColor;border-radius:999px;padding:0 10px;font-size:.85rem;font-weight:600;vertical-align:middle}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin:14px 0;padding:0;list-style:none}
.tiles li{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 12px;min-width:0}
.tiles b{display:block;font-size:1.2rem;line-height:1.3;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.tiles span{display:block;color:var(--faint);font-size:.82rem;overflow-wrap:anywhere}
.note{background:var(--warn-paper);color:var(--warn);border-left:4px solid currentColor;border-radius:4px;padding:6px 12px;margin:8px 0;overflow-wrap:anywhere}
.fail{color:var(--bad);border-left:4px solid currentColor;background:var(--card);border-radius:4px;padding:6px 12px;margin:8px 0;overflow-wrap:anywhere}
.tools{flex-wrap:wrap;gap:6px 18px;align-items:center;margin:0 0 12px;font-size:.88rem}.tools{display:none}
.scripted .tools{display:flex}
.tools label{display:flex;align-items:center;gap:6px}
button,select{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:1px 8px;cursor:pointer}
button:disabled{opacity:.5;cursor:default}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,370px),1fr));gap:18px 26px;margin:0 0 22px}
.charts.large{grid-template-columns:repeat(auto-fit,minmax(min(100%,540px),1fr))}
figure{margin:0;min-width:0}
.chart figcaption{display:flex;gap:8px;align-items:baseline;flex-wrap:wrap}
.chart figcaption .at{color:var(--faint);font-size:.82rem;flex:1;font-variant-numeric:tabular-nums}
.chart figcaption button{display:none;font-size:.75rem;padding:0 6px}
.scripted .chart figcaption button{display:inline}
.plot{position:relative;height:180px;margin:8px 6px 24px 58px;border-left:1px solid var(--faint);border-bottom:1px solid var(--faint);touch-action:pan-y;cursor:crosshair;user-select:none;-webkit-user-select:none}
.large .plot{height:270px}
.plot svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible;clip-path:inset(-4px);display:block}
.plot path{fill:none;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.plot .grid{stroke:var(--grid);stroke-width:1}
.plot .mark{stroke:var(--faint);stroke-width:1;stroke-dasharray:3 3}
.plot .wrong{stroke:var(--bad);stroke-width:2}
.line{stroke:var(--k)}.k1{--k:var(--k1)}.k2{--k:var(--k2)}.k3{--k:var(--k3)}.k4{--k:var(--k4)}.k5{--k:var(--k5)}.k6{--k:var(--k6)}.k7{--k:var(--k7)}.k8{--k:var(--k8)}
.line .raw{stroke-width:1;stroke-opacity:.4}
.line .band{fill:var(--k);fill-opacity:.22;stroke:none}
.line .smooth,.line .plain{stroke-width:2}
.line .dots{stroke-width:5;stroke-linecap:round}
.dash .smooth,.dash .plain{stroke-dasharray:6 4}
.one .smooth,.one .plain{stroke-width:7;stroke-linecap:round;stroke-dasharray:none}
.ys span{position:absolute;right:calc(100% + 6px);transform:translateY(-50%);white-space:nowrap;font-size:11px;color:var(--faint);font-variant-numeric:tabular-nums}
.xs span{position:absolute;top:calc(100% + 4px);transform:translateX(-50%);white-space:nowrap;font-size:11px;color:var(--faint);font-variant-numeric:tabular-nums}
.cursor{position:absolute;top:0;bottom:0;border-left:1px solid var(--text);display:none;pointer-events:none}
.zoom{position:absolute;top:0;bottom:0;background:var(--k1);opacity:.18;display:none;pointer-events:none}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:0 0 0 58px;padding:0;font-size:.82rem}
.legend li{display:flex;flex-wrap:wrap;gap:0 6px;align-items:center;max-width:100%;overflow-wrap:anywhere}
.legend button{border:0;background:none;padding:0;display:flex;gap:6px;align-items:center;text-align:left}
.legend button[aria-pressed=false]{opacity:.45;text-decoration:line-through}
.legend i{flex:none;width:16px;border-top:3px solid var(--k)}
.legend .dash i{border-top-style:dashed}
.legend output{color:var(--faint);font-variant-numeric:tabular-nums}
.scroll{overflow:auto;max-height:72vh;border:1px solid var(--line);border-radius:8px;
background:linear-gradient(to right,var(--paper) 40%,transparent) 0 0/36px 100%,linear-gradient(to left,var(--paper) 40%,transparent) 100% 0/36px 100%,linear-gradient(to right,var(--shade),transparent) 0 0/14px 100%,linear-gradient(to left,var(--shade),transparent) 100% 0/14px 100%;background-repeat:no-repeat;background-attachment:local,local,scroll,scroll}
table{border-collapse:collapse;font-size:.85rem;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:3px 10px;text-align:left;border-bottom:1px solid var(--grid);white-space:nowrap}
td.wrap{white-space:normal;overflow-wrap:anywhere;min-width:10em;max-width:32em}
td.few{min-width:5em}
td.long{min-width:24em}
thead th{position:sticky;top:0;background:var(--card);z-index:1;border-bottom:1px solid var(--line)}
thead th button{border:0;background:none;padding:0;font-weight:600}
th[aria-sort=ascending] button:after{content:" \25B2"}th[aria-sort=descending] button:after{content:" \25BC"}
.number{text-align:right}
tfoot td,tfoot th{font-weight:600;background:var(--card)}
td .bar{display:block;height:4px;border-radius:2px;background:var(--k1);min-width:1px}
td.best{font-weight:700;color:var(--good)}
details{margin:8px 0}summary{cursor:pointer;font-weight:600}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px;overflow:auto;max-height:60vh;margin:8px 0;tab-size:2}
.command{position:relative}.command pre{white-space:pre-wrap;overflow-wrap:anywhere;padding-right:70px}
.command button{position:absolute;top:6px;right:6px;font-size:.75rem;display:none}.scripted .command button{display:block}
.net{overflow:auto;max-height:80vh;border:1px solid var(--line);border-radius:8px;text-align:center}
.net svg{max-width:100%;height:auto}
#whole-size:checked~.net svg{max-width:none}
.confusion{overflow:auto;max-width:100%}
.confusion svg{display:block;max-width:none}.confusion svg.fits{max-width:100%;height:auto}
.confusion text{font-size:12px;fill:var(--text)}.confusion .right{fill:var(--k1)}.confusion .wrong{fill:var(--k2)}.confusion .cells{fill:var(--card)}
.confusion .lines{stroke:var(--line);fill:none}.confusion .on{fill:var(--paper)}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,150px),1fr));gap:12px;list-style:none;margin:8px 0;padding:0}
.pictures.wide{grid-template-columns:repeat(auto-fill,minmax(min(100%,260px),1fr))}
.pictures li{min-width:0;font-size:.8rem;overflow-wrap:anywhere}
.pictures .image{position:relative;background:var(--card);border:1px solid var(--line);border-radius:4px;overflow:hidden}
.pictures img{display:block;width:100%;height:auto}
.pictures .small img{image-rendering:pixelated}
.pictures .over{position:absolute;inset:0;height:100%;opacity:.75;image-rendering:pixelated}.pair img:first-child{filter:grayscale(.7)}
.pictures svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:4px}
.box{fill:none;stroke:var(--b);stroke-width:2.5;vector-effect:non-scaling-stroke}.box.truth{stroke:#ffffff;stroke-dasharray:5 4;stroke-width:2}
.truth-shadow{fill:none;stroke:#000000;stroke-width:3;stroke-opacity:.55;vector-effect:non-scaling-stroke}
.tag{position:absolute;font:600 11px/1.3 system-ui,sans-serif;color:#000;background:var(--b);padding:0 3px;border-radius:2px;white-space:nowrap;transform:translateY(-100%)}
.tag.under{transform:none}
.swatches{display:flex;flex-wrap:wrap;gap:2px 14px;list-style:none;margin:6px 0;padding:0;font-size:.82rem}
.swatches i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:5px;vertical-align:-1px;border:1px solid var(--line)}
.curves2{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr));gap:18px}
.pr .plot{height:300px;cursor:default;margin-bottom:40px}
.plot .x-name,.plot .y-name{position:absolute;font-size:11px;color:var(--faint)}.x-name{top:calc(100% + 19px);left:50%;transform:translateX(-50%)}
.y-name{right:calc(100% + 36px);top:50%;writing-mode:vertical-rl;transform:translateY(-50%) rotate(180deg)}
.ridges{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,165px),1fr));gap:10px}
.ridges figure{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:6px 8px}
.ridges figcaption{font-size:.78rem;overflow-wrap:anywhere}
.ridges svg{width:100%;height:110px;display:block;overflow:visible}
.ridges path{fill:var(--k1);fill-opacity:.14;stroke:var(--k1);stroke-width:1;vector-effect:non-scaling-stroke}
.ridges .first{stroke:var(--k8);fill:var(--k8)}
.ridges .ends{display:flex;justify-content:space-between;font-size:11px;color:var(--faint);font-variant-numeric:tabular-nums}
footer{color:var(--faint);font-size:.82rem;padding-bottom:30px}
@media (max-width:600px){main,header,footer{padding:0 12px}.plot{margin-left:50px}.legend{margin-left:0}th,td{padding:3px 7px}.tiles{grid-template-columns:repeat(auto-fill,minmax(128px,1fr))}}
@media print{.tools,nav,.command button,.chart figcaption button{display:none!important}.scroll,.net,pre{max-height:none;overflow:visible}section,figure{break-inside:avoid-page}}
)css";

}  // namespace crema

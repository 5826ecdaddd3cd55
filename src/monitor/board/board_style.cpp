// The style that the board's pages have beside that of reports.
#include "monitor/board/pages.hpp"

namespace crema {

const char* const kBoardStyle = R"css(
header{padding-top:12px}
.board{margin:0}
#runs td.wrap{min-width:15em}
.live{color:var(--good);font-weight:600}
.live:before{content:"";display:inline-block;width:.6em;height:.6em;border-radius:50%;background:var(--good);margin-right:.45em}
#board-state{font-size:.85rem;margin:0}
#board-state:empty{display:none}
#board-state.lost{color:var(--bad)}
.links{list-style:none;padding:0;margin:8px 0;display:flex;flex-wrap:wrap;gap:4px 18px;overflow-wrap:anywhere}
.see{display:flex;flex-wrap:wrap;gap:10px 18px;align-items:center}
.see select{max-width:min(100%,22em)}
.drop{flex:1 1 220px;border:2px dashed var(--line);border-radius:8px;padding:16px;text-align:center;cursor:pointer;background:var(--card)}
.drop:focus-within{outline:2px solid var(--link);outline-offset:2px}
.drop input{position:absolute;width:1px;height:1px;opacity:0}
.over .drop{border-color:var(--link);color:var(--link)}
#seen .scores{list-style:none;margin:6px 0 0;padding:0;font-size:.82rem}
#seen .scores li{position:relative;display:flex;justify-content:space-between;gap:8px;padding:1px 6px;margin:2px 0;border-radius:4px;overflow:hidden;background:var(--card)}
#seen .scores i{position:absolute;left:0;top:0;bottom:0;background:var(--k1);opacity:.25}
#seen .scores span{position:relative;overflow-wrap:anywhere}
#seen .scores b{position:relative;font-variant-numeric:tabular-nums}
#seen .image svg{pointer-events:none}
#seen .image .none{padding:20px;text-align:center}
pre.log{white-space:pre-wrap;overflow-wrap:anywhere}
)css";

const char* const kBoardIcon =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><rect width=\"16\" "
    "height=\"16\" "
    "rx=\"3\" fill=\"#0b62a8\"/><path d=\"M2.5 3.5c2 7 4 9 11 9\" fill=\"none\" stroke=\"#fff\" "
    "stroke-width=\"2\"/></svg>\n";

}  // namespace crema

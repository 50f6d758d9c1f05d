# Share of the limit over batch size, one panel a layer, one line a format.
# Arguments: terminal, output, data file, title, caption, formats, layers.
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; LAYERS = ARG7
HERE = ARG0[1:strlen(ARG0) - strlen("limit.gp")]
COUNT = words(LAYERS)
COLUMNS = COUNT > 1 ? 2 : 1
ROWS = (COUNT + COLUMNS - 1) / COLUMNS
WIDTH = 1000
LEGEND_ROWS = (words(SERIES) + 2) / 3 > 2 ? (words(SERIES) + 2) / 3 : 2 # three columns
HEIGHT = 74 + 18 * LEGEND_ROWS + 300 * ROWS
load HERE . "style.gp"
load HERE . "panels.gp"
stats DATA skip 1 using 6 nooutput name "M"
LARGEST_M = M_max

stats DATA skip 1 using 15 nooutput name "SHARE"
dash(s) = PREDICTED ? 2 : s
marker(s) = PREDICTED ? open(s) : filled(s)
row(v, s) = (strcol(1) eq s && strcol(2) eq LAYER) ? v : NaN
set multiplot
eval legend
plot for [S = 1:words(SERIES)] NaN with linespoints linecolor rgb colour(S) linewidth 2 dashtype dash(S) pointtype marker(S) pointsize 0.8 \
    title word(SERIES, S) . (PREDICTED ? ", predicted" : "")
set logscale x
do for [I = 1:COUNT] {
    LAYER = word(LAYERS, I)
    eval panels_begin
    eval MTICS
    eval panel(I)
    set ylabel "share of the limit, %" offset 1,0
    set xlabel "batch size M" offset 0,0.5
    set yrange [0:(SHARE_max > 100 ? SHARE_max * 1.05 : 105)]
    set ytics 25
    plot for [S = 1:words(SERIES)] DATA skip 1 using 6:(row($15, word(SERIES, S))) with linespoints \
        linecolor rgb colour(S) linewidth 2 dashtype dash(S) pointtype marker(S) pointsize 0.8
}
unset multiplot

# Best so far over GPU seconds, one panel a layer, one line a batch size, of one format.
# Arguments: terminal, output, data file, title, caption, format, layers, batch sizes.
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; LAYERS = ARG7; SIZES = ARG8
HERE = ARG0[1:strlen(ARG0) - strlen("search.gp")]
COUNT = words(LAYERS)
COLUMNS = COUNT > 1 ? 2 : 1
ROWS = (COUNT + COLUMNS - 1) / COLUMNS
WIDTH = 1000
HEIGHT = 110 + 330 * ROWS
LARGEST_M = 1
load HERE . "style.gp"
load HERE . "panels.gp"

row(v, m) = (strcol(1) eq SERIES && strcol(2) eq LAYER && strcol(5) eq m) ? v : NaN
mine(v) = strcol(1) eq SERIES ? v : NaN
stats DATA skip 1 using (mine($7)) nooutput name "AT"
stats DATA skip 1 using (mine($9)) nooutput name "OVER"
HIGH = OVER_max > 3 ? 3 : (OVER_max < 1.2 ? 1.2 : OVER_max * 1.02)
# From light to dark with M: neighbours are alike, as their searches are.
shade(i) = int(255 * 0.82 * (1 - (i - 1.0) / (words(SIZES) > 1 ? words(SIZES) - 1 : 1)))
tint(i) = shade(i) * 65536 + (int(0.6 * shade(i)) + 70) * 256 + 140 + int(0.4 * shade(i))

set multiplot
eval legend
plot for [I = 1:words(SIZES)] NaN with lines linecolor rgb tint(I) linewidth 2.5 title (I == 1 ? "M = " : "") . word(SIZES, I)
set logscale x
do for [P = 1:COUNT] {
    LAYER = word(LAYERS, P)
    eval panels_begin
    eval panel(P)
    set xrange [(AT_min > 0 ? AT_min : AT_max / 1000) / 1.3 : AT_max * 1.3]
    set format x "%g"
    set xtics autofreq
    set yrange [0.98:HIGH]
    set ylabel "best so far / best" offset 1,0
    set xlabel "GPU seconds of the problem" offset 0,0.5
    plot for [I = 1:words(SIZES)] DATA skip 1 using 7:(row($9, word(SIZES, I))) with steps linecolor rgb tint(I) linewidth 2
}
unset multiplot

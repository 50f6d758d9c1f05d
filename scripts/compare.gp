# Change of each winner's time between two sets of results, over batch size: one panel a layer, one mark a format.
# Arguments: terminal, output, data file, title, caption, formats, layers, part.
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; LAYERS = ARG7; PART = ARG8
HERE = ARG0[1:strlen(ARG0) - strlen("compare.gp")]
COUNT = words(LAYERS)
COLUMNS = COUNT > 1 ? 2 : 1
ROWS = (COUNT + COLUMNS - 1) / COLUMNS
WIDTH = 1000
LEGEND_ROWS = words(SERIES) > 5 ? 1 + words(SERIES) / 3 : 2 # three columns; the last entry is "no change"
HEIGHT = 74 + 18 * LEGEND_ROWS + 300 * ROWS
load HERE . "style.gp"
load HERE . "panels.gp"

mine(v) = strcol(1) eq PART ? v : NaN
stats DATA skip 1 using (mine($6)) nooutput name "M"
stats DATA skip 1 using (mine($10)) nooutput name "LO"
stats DATA skip 1 using (mine($11)) nooutput name "HI"
LARGEST_M = M_max
# All panels share one scale, so that they can be compared; small changes are not blown up.
LOW = (LO_min < -6 ? LO_min : -6) * 1.08; HIGH = (HI_max > 6 ? HI_max : 6) * 1.08
count = words(SERIES)
row(v, s) = (strcol(1) eq PART && strcol(2) eq s && strcol(3) eq LAYER) ? v : NaN
here(v) = (strcol(1) eq PART && strcol(3) eq LAYER) ? v : NaN
sure(v) = strcol(13) eq "ambiguous" ? NaN : v
unsure(v) = strcol(13) eq "ambiguous" ? v : NaN
# Marks of several formats stand side by side.
beside(m, s) = m * 1.09 ** (2 * s - count - 1)

set multiplot
eval legend
plot for [S = 1:count] NaN with points linecolor rgb colour(S) linewidth 2 pointtype filled(S) pointsize 1.1 title word(SERIES, S), \
     NaN with lines linecolor rgb "#d0d5db" linewidth 10 title "no change"
set logscale x
do for [I = 1:COUNT] {
    LAYER = word(LAYERS, I)
    eval panels_begin
    set xrange [0.65:LARGEST_M * 1.55]
    eval MTICS
    eval panel(I)
    set ylabel "change of time, %" offset 1,0
    set xlabel "batch size M" offset 0,0.5
    set yrange [LOW:HIGH]
    set ytics autofreq
    set format y "%+g"
    plot DATA skip 1 using 6:(0):($6 / 1.42):($6 * 1.42):(here(100 / (1 + $12 / 100) - 100)):(here($12)) with boxxyerror fillstyle solid noborder linecolor rgb "#d0d5db", \
         0 with lines linecolor rgb QUIET linewidth 1, \
         for [S = 1:count] DATA skip 1 using (beside($6, S)):(row($9, word(SERIES, S))):10:11 with yerrorbars linecolor rgb colour(S) linewidth 1.5 pointtype 0, \
         for [S = 1:count] DATA skip 1 using (beside($6, S)):(sure(row($9, word(SERIES, S)))) with points linecolor rgb colour(S) linewidth 1.5 pointtype filled(S) pointsize 0.9, \
         for [S = 1:count] DATA skip 1 using (beside($6, S)):(unsure(row($9, word(SERIES, S)))) with points linecolor rgb colour(S) linewidth 1.5 pointtype open(S) pointsize 0.9
}
unset multiplot

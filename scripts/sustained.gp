# Speed-up on a rested card (cool) and under load (sustained), over batch size: one panel a layer, a pair of lines a format.
# Arguments: terminal, output, data file, title, caption, formats, layers.
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; LAYERS = ARG7
HERE = ARG0[1:strlen(ARG0) - strlen("sustained.gp")]
COUNT = words(LAYERS)
COLUMNS = COUNT > 1 ? 2 : 1
ROWS = (COUNT + COLUMNS - 1) / COLUMNS
WIDTH = 1000
LEGEND_ROWS = (words(SERIES) + 4) / 3 > 2 ? (words(SERIES) + 4) / 3 : 2 # three columns
HEIGHT = 74 + 18 * LEGEND_ROWS + 300 * ROWS
load HERE . "style.gp"
load HERE . "panels.gp"

# Only rows that were timed under load: small products have no such time.
loaded(v) = valid(19) ? v : NaN
stats DATA skip 1 using (loaded($6)) nooutput name "M"
stats DATA skip 1 using (loaded($14)) nooutput name "COOL"
stats DATA skip 1 using 19 nooutput name "LOAD"
LARGEST_M = M_max
HIGH = 1.1 * (COOL_max > LOAD_max ? COOL_max : LOAD_max)
count = words(SERIES)
row(v, s) = (strcol(1) eq s && strcol(2) eq LAYER) ? v : NaN

set multiplot
eval legend
plot for [S = 1:count] NaN with linespoints linecolor rgb colour(S) linewidth 2 pointtype filled(S) pointsize 0.9 title word(SERIES, S), \
     NaN with linespoints linecolor rgb INK linewidth 2 pointtype 7 pointsize 0.9 title "rested", \
     NaN with linespoints linecolor rgb INK linewidth 2 dashtype 2 pointtype 6 pointsize 0.9 title "under load"
set logscale x
do for [I = 1:COUNT] {
    LAYER = word(LAYERS, I)
    eval panels_begin
    set xrange [M_min * 0.8:LARGEST_M * 1.25]
    eval MTICS
    eval panel(I)
    set ylabel "speed-up over cuBLASLt FP16" offset 1,0
    set xlabel "batch size M" offset 0,0.5
    set yrange [0:(HIGH > 1.2 ? HIGH : 1.2)]
    set ytics autofreq
    plot 1 with lines linecolor rgb QUIET linewidth 1, \
         for [S = 1:count] DATA skip 1 using 6:(loaded(row($14, word(SERIES, S)))) with linespoints linecolor rgb colour(S) linewidth 2 pointtype filled(S) pointsize 0.9, \
         for [S = 1:count] DATA skip 1 using 6:(row($19, word(SERIES, S))) with linespoints linecolor rgb colour(S) linewidth 2 dashtype 2 pointtype open(S) pointsize 0.9
}
unset multiplot

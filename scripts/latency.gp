# Latency over batch size, one panel a layer, of one format.
# Arguments: terminal, output, data file, title, caption, format, layers.
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; LAYERS = ARG7
HERE = ARG0[1:strlen(ARG0) - strlen("latency.gp")]
COUNT = words(LAYERS)
COLUMNS = COUNT > 1 ? 2 : 1
ROWS = (COUNT + COLUMNS - 1) / COLUMNS
WIDTH = 1000
HEIGHT = 110 + 330 * ROWS
load HERE . "style.gp"
load HERE . "panels.gp"
stats DATA skip 1 using 6 nooutput name "M"
LARGEST_M = M_max

row(v) = (strcol(1) eq SERIES && strcol(2) eq LAYER) ? v : NaN
known(v, otherwise) = v == v ? v : otherwise
has(c) = (strcol(1) eq SERIES && column(c) == column(c)) ? 1 : 0
stats DATA skip 1 using (has(11)) nooutput name "BASE"
stats DATA skip 1 using (has(12)) nooutput name "DEQUANT"
stats DATA skip 1 using (has(20)) nooutput name "DEFAULT"

WINNER = PREDICTED ? "Tern, predicted" : "Tern, winner"
DASH = PREDICTED ? 2 : 1
POINT = PREDICTED ? 6 : 7
# Loops over column numbers that end before they begin where nothing was measured: neither line nor legend then.
BASE_END = BASE_max > 0 ? 11 : 10
DEQUANT_END = DEQUANT_max > 0 ? 12 : 11
DEFAULT_END = DEFAULT_max > 0 ? 20 : 19
# Range and labels of the time axis: whole decades are labelled, and 2 and 5 of each where few decades are seen.
axis(low, high) = sprintf("set yrange [%g:%g]; set ytics (", low, high) . marks(10.0 ** floor(log10(low)), high, high / low < 1000.0) . ")"
marks(at, high, dense) = at > high ? '"" 1e-9' : \
    (dense ? sprintf('"%g" %g, "%g" %g, "%g" %g, ', at, at, 2 * at, 2 * at, 5 * at, 5 * at) : sprintf('"%g" %g, ', at, at)) . marks(at * 10, high, dense)

set multiplot
set logscale xy
eval legend
plot NaN with linespoints linecolor rgb GREY linewidth 2 dashtype 3 pointtype 2 pointsize 0.4 title "limit of this GPU", \
     for [C = 12:DEQUANT_END] NaN with linespoints linecolor rgb GREEN linewidth 1.5 dashtype 4 pointtype 8 pointsize 0.8 title "dequantise + cuBLASLt", \
     for [C = 11:BASE_END] NaN with linespoints linecolor rgb ORANGE linewidth 2 dashtype 2 pointtype 4 pointsize 0.8 title "cuBLASLt FP16, best", \
     for [C = 20:DEFAULT_END] NaN with points linecolor rgb INK linewidth 1 pointtype 1 pointsize 0.7 title "cuBLASLt FP16, default", \
     NaN with linespoints linecolor rgb BLUE linewidth 2 dashtype DASH pointtype POINT pointsize 0.8 title WINNER
do for [I = 1:COUNT] {
    LAYER = word(LAYERS, I)
    eval panels_begin
    set yrange [*:*] # stats obeys the ranges
    LOW = 1e9; HIGH = 0.0
    do for [C in "7 11 12 13"] {
        stats DATA skip 1 using (row(known(column(int(C)), $7))) nooutput name "T"
        LOW = (T_min < LOW ? T_min : LOW); HIGH = (T_max > HIGH ? T_max : HIGH)
    }
    eval axis(LOW / 1.6, HIGH * 1.6)
    eval MTICS
    eval panel(I)
    set ylabel "time of one launch, µs" offset -1.5,0
    set xlabel "batch size M" offset 0,0.5
    plot DATA skip 1 using 6:(row($13)) with linespoints linecolor rgb GREY linewidth 2 dashtype 3 pointtype 2 pointsize 0.4, \
         for [C = 12:DEQUANT_END] DATA skip 1 using 6:(row(column(C))) with linespoints linecolor rgb GREEN linewidth 1.5 dashtype 4 pointtype 8 pointsize 0.8, \
         for [C = 11:BASE_END] DATA skip 1 using 6:(row(column(C))) with linespoints linecolor rgb ORANGE linewidth 2 dashtype 2 pointtype 4 pointsize 0.8, \
         for [C = 20:DEFAULT_END] DATA skip 1 using 6:(row(column(C))) with points linecolor rgb INK linewidth 1 pointtype 1 pointsize 0.7, \
         DATA skip 1 using 6:(row($7)) with linespoints linecolor rgb BLUE linewidth 2 dashtype DASH pointtype POINT pointsize 0.8
}
unset multiplot

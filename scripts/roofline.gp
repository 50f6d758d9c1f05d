# Roofline: arithmetic rate over operations for each byte, under the memory and the matrix ceiling.
# Arguments: terminal, output, data file, title, caption, formats, layers, "GB/s TFLOP/s measured|sheet".
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; LAYERS = ARG7
GBS = real(word(ARG8, 1)); PEAK = real(word(ARG8, 2))
HERE = ARG0[1:strlen(ARG0) - strlen("roofline.gp")]
WIDTH = 1000; HEIGHT = 640
load HERE . "style.gp"

set logscale xy
set lmargin at screen 0.085; set rmargin at screen 0.72; set tmargin at screen 1.0 - 52.0/HEIGHT; set bmargin at screen 90.0/HEIGHT
set key at screen 0.985, 1.0 - 52.0/HEIGHT right top vertical Left reverse samplen 2 spacing 1.15
set xlabel "operations for each byte moved, FLOP/byte"
set ylabel "arithmetic rate, TFLOP/s" offset -0.3,0
set format x "%g"; set format y "%g"
stats DATA skip 1 using 16:17 nooutput name "P"
# The ridge, where the two ceilings meet, and a decade of the slope are always seen.
RIDGE = 1000.0 * PEAK / GBS
LOW = (P_min_x < RIDGE / 8.0 ? P_min_x : RIDGE / 8.0) / 1.6; HIGH = (P_max_x > 2000.0 * PEAK / GBS ? P_max_x * 1.6 : 2000.0 * PEAK / GBS)
set xrange [LOW:HIGH]
FLOOR = P_min_y / 2.0
set yrange [FLOOR:PEAK * 2.5]
set samples 400
roof(x) = (x * GBS / 1000.0 < PEAK) ? x * GBS / 1000.0 : PEAK
# Left of the ridge nothing is drawn up there.
set label 1 sprintf("matrix units, FP16: %.0f TFLOP/s", PEAK) at first RIDGE * 0.9, PEAK right font ",12" textcolor rgb INK
# The memory ceiling's text lies along its line: the angle follows from the size of the plot and the ranges.
SLOPE = ((HEIGHT - 142.0) / log10(PEAK * 2.5 / FLOOR)) / (635.0 / log10(HIGH / LOW))
AT = LOW * (PEAK * 1000.0 / GBS / LOW) ** 0.5
set label 2 sprintf("memory: %.0f GB/s", GBS) at first AT, roof(AT) * 1.3 center rotate by atan(SLOPE) * 180.0 / pi font ",12" textcolor rgb INK

row(v, s, l) = (strcol(1) eq s && strcol(2) eq l) ? v : NaN
LCOUNT = words(LAYERS); SCOUNT = words(SERIES)
format(c) = c / LCOUNT + 1
layer(c) = c % LCOUNT + 1
marker(l) = PREDICTED ? open(l) : filled(l)
dash(s) = s > 5 ? 1 : s
# The legend names colours (formats) and markers (layers), not every pair of them.
plot roof(x) with lines linecolor rgb INK linewidth 2.5 title (word(ARG8, 3) eq "measured" ? "ceiling, measured" : "ceiling, data sheet"), \
     for [C = 0:SCOUNT * LCOUNT - 1] DATA skip 1 using 16:(row($17, word(SERIES, format(C)), word(LAYERS, layer(C)))) \
     with linespoints linecolor rgb colour(format(C)) linewidth 1 dashtype dash(format(C)) pointsize 0.9 pointtype marker(layer(C)) notitle, \
     for [S = 1:SCOUNT] NaN with lines linecolor rgb colour(S) linewidth 3 dashtype dash(S) title word(SERIES, S) . (PREDICTED ? ", predicted" : ""), \
     for [L = 1:LCOUNT] NaN with points linecolor rgb QUIET pointsize 1.1 pointtype marker(L) title word(LAYERS, L)

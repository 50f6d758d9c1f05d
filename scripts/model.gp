# Bars: time of all tuned linear layers of a model, FP16 against each format, one panel a batch size.
# Arguments: terminal, output, data file, title, caption, formats, batch sizes.
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; SIZES = ARG7
HERE = ARG0[1:strlen(ARG0) - strlen("model.gp")]
load HERE . "words.gp"
COUNT = words(SIZES)
# Long names leave too little room for two panels side by side.
NAMES = 20.0 + label_width("FP16-cuBLASLt " . SERIES)
COLUMNS = COUNT > 1 && NAMES < 180 ? 2 : 1
ROWS = (COUNT + COLUMNS - 1) / COLUMNS
BARS = words(SERIES) + 1
WIDTH = 1000
HEIGHT = 90 + ROWS * (110 + 44 * BARS)
load HERE . "style.gp"

TOP = 50.0; BOTTOM = 36.0
PANEL_WIDTH  = (WIDTH - 20.0) / COLUMNS
PANEL_HEIGHT = (HEIGHT - TOP - BOTTOM) / ROWS
left(i)  = 20.0 + PANEL_WIDTH * ((i - 1) % COLUMNS)
above(i) = TOP + PANEL_HEIGHT * ((i - 1) / COLUMNS)
unset key
set grid noytics xtics
set border 1
set tics scale 0
mine(v) = (strcol(1) eq SIZE) ? v : NaN
amount(v) = v < 10 ? sprintf("%.2f", v) : v < 100 ? sprintf("%.1f", v) : sprintf("%.0f", v)
step(v) = (10.0 ** floor(log10(v))) * (v / 10.0 ** floor(log10(v)) < 2 ? 1 : v / 10.0 ** floor(log10(v)) < 5 ? 2 : 5)
text(v, s) = amount(SCALE * v) . UNIT . (s == s && s != 1 ? sprintf(" (%.2f×)", s) : "")
what(m) = m eq "1" ? "M = 1: one token" : "M = " . m . ": a step of " . m . " tokens"

set label 1003 "black mark: limit of this GPU" at screen 0.98, 1.0 - 24.0/HEIGHT right font ",12" textcolor rgb QUIET front
set multiplot
do for [I = 1:COUNT] {
    SIZE = word(SIZES, I)
    if (I > 1) { unset label 1001; unset label 1002; unset label 1003 }
    set title what(SIZE) offset 0,-0.6 font ",14" textcolor rgb INK
    set lmargin at screen (left(I) + NAMES) / WIDTH; set rmargin at screen (left(I) + PANEL_WIDTH - 20.0) / WIDTH
    set tmargin at screen 1.0 - (above(I) + 34.0) / HEIGHT; set bmargin at screen 1.0 - (above(I) + PANEL_HEIGHT - 62.0) / HEIGHT
    set xrange [*:*]; set yrange [*:*] # stats obeys the ranges
    stats DATA skip 1 using (mine($5)) nooutput name "BAR"
    stats DATA skip 1 using (mine($2)) nooutput name "FIRST"
    set yrange [BARS - 0.4:(FIRST_min > 0 ? 0.4 : -0.6)]
    # Room for the text at the end of the longest bar.
    SCALE = BAR_max < 0.1 ? 1000.0 : 1.0
    UNIT = BAR_max < 0.1 ? " µs" : " ms"
    set xlabel UNIT[2:*] . " for all tuned layers" offset 0,0.5
    set xrange [0:SCALE * BAR_max * 1.95]
    set xtics step(SCALE * BAR_max / 2.0)
    if (PREDICTED) { set style fill transparent solid 0.3 border } else { set style fill solid 1.0 noborder }
    plot DATA skip 1 using (SCALE * mine($5 / 2)):2:(SCALE * $5 / 2):(0.34):($3 == 0 ? int(0x9aa3ad) : colour(int($3))):ytic(strcol(4)) with boxxyerror linecolor rgb variable, \
         DATA skip 1 using (SCALE * mine($6)):($2 - 0.4):(0):(0.8) with vectors nohead linecolor rgb "#000000" linewidth 2.5, \
         DATA skip 1 using (SCALE * mine($5)):2:(text($5, column(7))) with labels left offset 0.8,0 font ",13" textcolor rgb INK
}
unset multiplot

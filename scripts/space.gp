# The tuning space of one problem: each candidate's time in the order of the search, a colour a template; failures at the top.
# Arguments: terminal, output, data file, title, caption, format, templates, outcomes other than ok.
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; TEMPLATES = ARG7; OUTCOMES = ARG8
HERE = ARG0[1:strlen(ARG0) - strlen("space.gp")]
WIDTH = 1000; HEIGHT = 600
load HERE . "style.gp"

mine(v) = strcol(1) eq SERIES ? v : NaN
stats DATA skip 1 using (mine($8)) nooutput name "US"
stats DATA skip 1 using (mine($9)) nooutput name "LIMIT"
stats DATA skip 1 using (mine($10)) nooutput name "BASE"
stats DATA skip 1 using (mine($11)) nooutput name "TRIAL"
HAS_BASE = BASE_records > 0
BASE = HAS_BASE ? BASE_max : NaN
TOP = (HAS_BASE && BASE_max > US_max ? BASE_max : US_max) * 1.15
LOW = (LIMIT_min < US_min ? LIMIT_min : US_min) / 1.15; HIGH = TOP * 1.1 ** words(OUTCOMES)
set logscale y
set lmargin at screen 0.085; set rmargin at screen 0.74; set tmargin at screen 1.0 - 52.0/HEIGHT; set bmargin at screen 90.0/HEIGHT
set key at screen 0.985, 1.0 - 52.0/HEIGHT right top vertical Left reverse samplen 2 spacing 1.15
set xlabel "trials, in the order of the search"
set ylabel "time of one launch, µs" offset -0.3,0
set xrange [0:TRIAL_max + 1]; set yrange [LOW:HIGH]
# Ticks that suit a logarithmic axis of much less than a decade, or of some.
FINE = '("0.5" 0.5, "0.6" 0.6, "0.8" 0.8, "1" 1, "1.2" 1.2, "1.5" 1.5, "2" 2, "2.5" 2.5, "3" 3, "4" 4, "5" 5, "6" 6, "8" 8, "10" 10, "12" 12, "15" 15, "20" 20, "25" 25, "30" 30, "40" 40, "50" 50, "60" 60, "80" 80, "100" 100, "120" 120, "150" 150, "200" 200, "250" 250, "300" 300, "400" 400, "500" 500, "600" 600, "800" 800, "1000" 1000, "1200" 1200, "1500" 1500, "2000" 2000, "2500" 2500, "3000" 3000, "4000" 4000, "6000" 6000)'
COARSE = '("0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10, "20" 20, "50" 50, "100" 100, "200" 200, "500" 500, "1000" 1000, "2000" 2000, "5000" 5000, "10000" 10000, "100000" 100000)'
eval "set ytics " . (HIGH / LOW < 20 ? FINE : COARSE)
ok(v, t) = (strcol(1) eq SERIES && strcol(4) eq t && strcol(5) eq "ok") ? v : NaN
bad(v, o) = (strcol(1) eq SERIES && strcol(5) eq o) ? v : NaN
won(v) = (strcol(1) eq SERIES && $6 == 1) ? v : NaN
symbol(i) = int(word("2 1 3 8 10 12 14 4 6", 1 + (i - 1) % 9))
plot LIMIT_min with lines linecolor rgb INK linewidth 2 dashtype 3 title "limit of this GPU", \
     BASE with lines linecolor rgb GREY linewidth 2 dashtype 2 title (HAS_BASE ? "best cuBLASLt FP16" : ""), \
     DATA skip 1 using 11:(mine($7)) with points linecolor rgb "#b4bcc6" pointtype 1 pointsize 0.8 linewidth 1.5 title "as predicted", \
     for [T = 1:words(TEMPLATES)] DATA skip 1 using 11:(ok($8, word(TEMPLATES, T))) with points linecolor rgb colour(T) pointtype filled(T) pointsize 0.7 title word(TEMPLATES, T), \
     DATA skip 1 using 11:(won($8)) with points linecolor rgb INK linewidth 2 pointtype 6 pointsize 2 title "winner", \
     for [O = 1:words(OUTCOMES)] DATA skip 1 using 11:(bad(TOP * 1.1 ** (O - 1), word(OUTCOMES, O))) with points linecolor rgb INK linewidth 1.5 pointtype symbol(O) pointsize 1 title word(OUTCOMES, O)

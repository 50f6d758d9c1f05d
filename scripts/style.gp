# Style of every picture: terminal, fonts, colours. Loaded by the scripts beside it, which set TERMINAL, OUTPUT, WIDTH, HEIGHT,
# TITLE, CAPTION first. Colours are Okabe and Ito's, told apart by the colour-blind; markers and dashes differ too, for grey prints.
set encoding utf8
set termoption noenhanced
if (TERMINAL eq "svg") {
    set terminal svg size WIDTH,HEIGHT dynamic noenhanced font "DejaVu Sans,Helvetica,Arial,sans-serif,14" background "#ffffff"
} else {
    if (strstrt(GPVAL_TERMINALS, "pngcairo") > 0) {
        set terminal pngcairo size 2*WIDTH,2*HEIGHT noenhanced font "DejaVu Sans,10.5" fontscale 2 linewidth 2 pointscale 2 background "#ffffff"
    } else {
        set terminal png size 2*WIDTH,2*HEIGHT noenhanced font "DejaVuSans,21" linewidth 2 background "#ffffff"
    }
}
set output OUTPUT

INK   = "#1b1f24"
QUIET = "#57606a"
GRID  = "#e1e5ea"
BLUE = "#0072b2"; ORANGE = "#e69f00"; GREEN = "#009e73"; RED = "#d55e00"; PURPLE = "#cc79a7"; SKY = "#56b4e9"; GREY = "#7f7f7f"
COLOURS = "0x0072b2 0xd55e00 0x009e73 0xcc79a7 0xe69f00 0x56b4e9 0x000000"
colour(i) = int(word(COLOURS, 1 + (i - 1) % words(COLOURS)))
filled(i) = int(word("7 5 9 13 11 15", 1 + (i - 1) % 6))
open(i)   = filled(i) - 1

set dashtype 2 (6,4)
set dashtype 3 (1.5,4)
set dashtype 4 (7,3,1.5,3)
set dashtype 5 (3,3)

set border 3 linecolor rgb QUIET linewidth 1
set tics nomirror textcolor rgb INK
set grid linecolor rgb GRID linetype 1 linewidth 1
set key textcolor rgb INK
set datafile separator tab
set datafile missing "NaN"

# Title above, device and state below; both outside the plots.
set label 1001 TITLE at screen 0.02, 1.0 - 24.0/HEIGHT left font ",17" textcolor rgb INK front
PREDICTED = CAPTION[1:9] eq "PREDICTED"
set label 1002 CAPTION at screen 0.02, 14.0/HEIGHT left font ",12" textcolor rgb (PREDICTED ? RED : QUIET) front

# Heat map of speed-ups: layers of each format down, batch sizes across, the number in each cell.
# Arguments: terminal, output, data file, title, caption, formats, layers.
TERMINAL = ARG1; OUTPUT = ARG2; DATA = ARG3; TITLE = ARG4; CAPTION = ARG5; SERIES = ARG6; LAYERS = ARG7
HERE = ARG0[1:strlen(ARG0) - strlen("heatmap.gp")]
set datafile separator tab
stats DATA skip 1 using 1:2 nooutput name "CELL"
WIDTH = 300 + int(48 * (1 + CELL_max_x)) # room for the number in each cell
WIDTH = WIDTH < 1000 ? 1000 : WIDTH
HEIGHT = 190 + int(38 * (1 - CELL_min_y))
HEIGHT = HEIGHT < 360 ? 360 : HEIGHT # room for the colour bar
load HERE . "words.gp"
load HERE . "style.gp"

unset key
unset grid
unset border
set lmargin at screen (40.0 + label_width(SERIES) + label_width(LAYERS)) / WIDTH; set rmargin at screen 0.87
set tmargin at screen 1.0 - 60.0/HEIGHT; set bmargin at screen 110.0/HEIGHT
set xrange [-0.5:CELL_max_x + 0.5]
set yrange [CELL_min_y - 0.5:0.5]
set tics scale 0
set xlabel "batch size M"
# Blue: faster than cuBLASLt; orange: slower; lightness says how much, so that grey prints keep it.
set palette defined (-3 "#7f3b08", -1.5 "#e08214", 0 "#f7f7f7", 1.5 "#74a9cf", 3 "#08306b")
# The bar keeps its size, however many rows there are.
BAR = HEIGHT - 170.0 < 300.0 ? HEIGHT - 170.0 : 300.0
set colorbox user origin 0.89, 1.0 - (60.0 + BAR)/HEIGHT size 0.025, BAR/HEIGHT
set cbrange [-3:3]
set cblabel "speed-up over cuBLASLt FP16" offset 0.5,0
set cbtics ("1/8" -3, "1/4" -2, "1/2" -1, "1" 0, "2" 1, "4" 2, "8" 3)
dark(v) = abs(v) > 1.75
plot DATA skip 1 using 1:2:(0.48):(0.46):3 with boxxyerror fillstyle solid noborder palette, \
     DATA skip 1 using 1:2:(dark($3) ? strcol(4) : "") with labels textcolor rgb "#ffffff" font ",13", \
     DATA skip 1 using 1:2:(dark($3) ? "" : strcol(4)):xtic(5):ytic(6) with labels textcolor rgb INK font ",13"

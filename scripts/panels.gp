# Panels over batch size: places panel I of COUNT in a grid of COLUMNS x ROWS and gives it its title and M axis.
# Needs WIDTH, HEIGHT, LARGEST_M; the first TOP pixels hold the title and LEGEND_ROWS rows of a legend (2 if nobody says), the last 36
# the caption.
if (!exists("LEGEND_ROWS")) LEGEND_ROWS = 2
TOP = 48.0 + 18.0 * LEGEND_ROWS; BOTTOM = 36.0
px(x) = x / WIDTH
py(y) = 1.0 - y / HEIGHT
PANEL_WIDTH  = (WIDTH - 20.0) / COLUMNS
PANEL_HEIGHT = (HEIGHT - TOP - BOTTOM) / ROWS
left(i)  = 20.0 + PANEL_WIDTH * ((i - 1) % COLUMNS) + 70.0
above(i) = TOP + PANEL_HEIGHT * ((i - 1) / COLUMNS) + 28.0
panel(i) = sprintf("set lmargin at screen %f; set rmargin at screen %f; set tmargin at screen %f; set bmargin at screen %f; set title '%s' offset 0,-0.6 font ',14' textcolor rgb INK", \
    px(left(i)), px(left(i) + PANEL_WIDTH - 92.0), py(above(i)), py(above(i) + PANEL_HEIGHT - 82.0), word(LAYERS, i))

# The legend has an empty plot of its own above the panels, as wide as the picture: legend, the plot of it, then panels_begin.
legend = "set lmargin at screen px(20.0); set rmargin at screen px(WIDTH - 20.0); set tmargin at screen py(40.0); set bmargin at screen py(TOP - 6.0); " . \
    "set key center center horizontal maxrows 1 samplen 2 font ',12'; unset border; set tics scale 0; set format xy ''; unset grid; set xrange [1:2]; set yrange [1:2]"
panels_begin = "unset key; unset label 1001; unset label 1002; set border 3; set grid; set tics scale 1; set format xy '%g'; set xrange [0.8:LARGEST_M * 1.25]"

MTICS = 'set xtics ("1" 1, "" 2 1, "4" 4, "" 8 1, "16" 16, "" 32 1, "64" 64, "" 128 1, "256" 256, "" 512 1, "1024" 1024, "" 2048 1, "4096" 4096, "" 8192 1)'

# Widths of labels, for scripts that choose their layout by them. Loaded before style.gp.
# Pixels that the longest word of a list takes as a label.
longest(words_, i) = i > words(words_) ? 0 : (strlen(word(words_, i)) > longest(words_, i + 1) ? strlen(word(words_, i)) : longest(words_, i + 1))
label_width(words_) = 8.2 * longest(words_, 1)

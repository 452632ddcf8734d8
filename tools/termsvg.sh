#!/bin/sh
# Draws the recording of a terminal as an SVG, which goes to standard output. A line that
# begins with "$ " is a command, one with "# " a remark. Lines end after 100 columns.
#
#   sh tools/termsvg.sh docs/terminal.txt >docs/terminal.svg
set -eu
awk '
function escaped(text) {
	gsub(/&/, "\\&amp;", text)
	gsub(/</, "\\&lt;", text)
	gsub(/>/, "\\&gt;", text)
	return text
}
{ lines[NR] = length($0) > 100 ? substr($0, 1, 99) "…" : $0 }
END {
	width = 840
	height = NR * 18 + 28
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13.3\">\n", width, height, width, height
	printf "<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#16191d\"/>\n"
	for (i = 1; i <= NR; i++) {
		colour = "#d7dde4"
		if (lines[i] ~ /^\$ /) colour = "#7ee2a8"
		if (lines[i] ~ /^# /) colour = "#8b96a3"
		printf "<text x=\"16\" y=\"%d\" fill=\"%s\" xml:space=\"preserve\">%s</text>\n", i * 18 + 8, colour, escaped(lines[i])
	}
	print "</svg>"
}' "$1"

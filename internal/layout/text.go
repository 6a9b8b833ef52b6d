package layout

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Widths of characters in pixels, as estimated: the fonts of the reader are not known.
const (
	nameCharacter = 6.6
	textCharacter = 5.4
	textLeft      = 33 // of the texts in a node, behind the icon
	textRight     = 9
	maxFit        = 210.0
)

// fittingWidth returns the width of nodes in which the names and texts of g are whole, if that is possible.
func fittingWidth(g *Graph) float64 {
	width := NodeWidth
	for i := range g.Nodes {
		n := &g.Nodes[i]
		width = max(width, textLeft+textRight+nameCharacter*float64(utf8.RuneCountInString(n.Name)))
		width = max(width, textLeft+textRight+textCharacter*float64(utf8.RuneCountInString(n.Text)))
	}
	return math.Ceil(min(width, maxFit)/2) * 2
}

// cutMiddle shortens a name to so many characters, without its middle: beginning and end tell names apart.
func cutMiddle(s string, most int) string {
	r := []rune(s)
	if len(r) <= most || most < 3 {
		return s
	}
	return string(r[:most/2]) + "…" + string(r[len(r)-(most-1-most/2):])
}

// cutEnd shortens a text to so many characters.
func cutEnd(s string, most int) string {
	r := []rune(s)
	if len(r) <= most || most < 2 {
		return s
	}
	return strings.TrimRight(string(r[:most-1]), " ,.") + "…"
}

// escapeXML escapes a text for content and attributes; characters that XML does not allow become a question mark.
func escapeXML(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
	return xmlEscapes.Replace(s)
}

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// px writes a number of pixels, in hundredths.
func px(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// thousands writes a number with separators.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural writes a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

// Measures of the chart, in the units of an SVG.
const (
	chartWidth  = 860
	chartTop    = 64 // title and legend
	barHeight   = 16
	barPitch    = 24
	labelWidth  = 300
	valueWidth  = 90
	barsWidth   = chartWidth - labelWidth - valueWidth
	labelLength = 40 // characters
)

// Chart draws the largest packages as bars: lines with comments, and the others.
func Chart(_ context.Context, r Ranking) (string, error) {
	packages := r.Largest()
	height := chartTop + barPitch*max(1, len(packages)) + 12
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12" role="img">`+"\n",
		chartWidth, height)
	title := "The largest packages of " + filepath.Base(r.Root)
	fmt.Fprintf(&b, "<title>%s</title>\n", escape(title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	fmt.Fprintf(&b, `<text x="16" y="26" font-size="16" font-weight="bold" fill="#1f2933">%s</text>`+"\n",
		escape(title))
	legend(&b, labelWidth, "#2f6f9f", "lines without comments")
	legend(&b, labelWidth+180, "#a8cbe2", "lines with comments")
	if len(packages) == 0 {
		fmt.Fprintf(&b, `<text x="16" y="%d" fill="#52606d">There is no Go code.</text>`+"\n", chartTop+barHeight)
	}
	longest := 1
	for _, p := range packages {
		longest = max(longest, p.Lines)
	}
	for i, p := range packages {
		bar(&b, chartTop+i*barPitch, p, float64(barsWidth)/float64(longest))
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

func legend(b *strings.Builder, x int, color, text string) {
	fmt.Fprintf(b,
		`<rect x="%d" y="40" width="10" height="10" fill="%s"/><text x="%d" y="49" fill="#52606d">%s</text>`+"\n",
		x, color, x+16, escape(text))
}

func bar(b *strings.Builder, y int, p Package, unit float64) {
	plain := float64(p.Lines-p.Comments) * unit
	comments := float64(p.Comments) * unit
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#1f2933">%s</text>`, labelWidth-8, y+12,
		escape(tail(p.Dir)))
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="#2f6f9f"/>`, labelWidth, y, plain, barHeight)
	fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#a8cbe2"/>`, labelWidth+plain, y, comments,
		barHeight)
	fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#52606d">%s</text>`+"\n", labelWidth+plain+comments+6, y+12,
		thousands(p.Lines))
}

// tail shortens a path to fit next to a bar. It keeps the end, which is more specific.
func tail(path string) string {
	runes := []rune(path)
	if len(runes) <= labelLength {
		return path
	}
	return "…" + string(runes[len(runes)-labelLength+1:])
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

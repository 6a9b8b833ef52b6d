package layout

import "strings"

// tokens are the colours of a drawing in light and dark, by the names of the console, whose values count where the
// drawing is part of a page that defines them.
var tokens = []struct{ name, light, dark string }{
	{"bg", "#f6f6f8", "#0d0e12"},
	{"surface", "#ffffff", "#14151a"},
	{"line-2", "#cfcfd9", "#393b46"},
	{"control-line", "#858593", "#6d6f7e"},
	{"ink", "#16161b", "#ededf2"},
	{"ink-2", "#464653", "#b8b9c4"},
	{"ink-3", "#62626f", "#9091a0"},
	{"idle", "#62626f", "#9091a0"},
	{"idle-soft", "#efeff3", "#202129"},
	{"run", "#0a679c", "#5cb8ee"},
	{"person", "#92259d", "#de90e7"},
	{"held", "#855300", "#e6b050"},
	{"lost", "#a0401a", "#f09c75"},
	{"ok", "#1a7040", "#58c687"},
	{"bad", "#bd222e", "#ff858b"},
}

// rules are the style of a drawing. $name is the colour of that token.
const rules = `
text{font:11px Inter,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,sans-serif;fill:$ink-3}
.ground{fill:$bg}
.name{font-size:12.5px;font-weight:600;fill:$ink}
.box{fill:$surface;stroke:$line-2}
.group{fill:none;stroke:$control-line}
.tag{fill:$surface;stroke:$control-line}
.tagged{font-size:10px;fill:$ink-2;text-anchor:middle}
.edge{fill:none;stroke:$control-line;stroke-width:1.25}
.head{fill:$control-line;stroke:$control-line}
.head.order{fill:$bg}
.failure{stroke-dasharray:1.5 3;stroke-linecap:round}
.always{stroke-dasharray:7 3}
.edge.future{stroke:$line-2}
.head.future{fill:$line-2;stroke:$line-2}
.head.future.order{fill:$bg}
.edge.off{stroke:$line-2;stroke-dasharray:4 3}
.label{fill:$ink-2;text-anchor:middle;stroke:$bg;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}
.mark{fill:$ink-3;stroke:$ink-3}
.ring{fill:none;stroke:$ink-3;stroke-width:1.5}
.kind{color:$ink-3}
.sign{fill:none;stroke:$surface;stroke-width:1.7;stroke-linecap:round;stroke-linejoin:round}
.idle{color:$idle}.run{color:$run}.person{color:$person}.held{color:$held}
.lost{color:$lost}.ok{color:$ok}.bad{color:$bad}
.open .box{stroke:currentColor;stroke-width:1.5}
.none .box{fill:$bg}.none .name{fill:$ink-3;font-weight:500}
.off .box{fill:none;stroke-dasharray:4 3}.off .name{fill:$ink-3;font-weight:500}
.track{fill:none;stroke:$idle-soft;stroke-width:3.5}
.share{fill:none;stroke:currentColor;stroke-width:3.5}
`

// styleSheet returns the style of a drawing. All selectors are below the class of the drawing, so the sheet changes
// nothing else in a page. Each colour is there twice, since programs without variables ignore the second one. The
// drawing follows the colour scheme of the page, or that of the reader as a document of its own.
func styleSheet() string {
	var b strings.Builder
	b.WriteString("svg.ff-flow:root{color-scheme:light dark}\n.ff-flow{")
	for _, t := range tokens {
		b.WriteString("--ff-" + t.name + ":var(--" + t.name + ",light-dark(" + t.light + "," + t.dark + "));")
	}
	b.WriteString("}\n")
	for rule := range strings.SplitAfterSeq(rules, "}") {
		selector, body, ok := strings.Cut(strings.TrimSpace(rule), "{")
		if !ok {
			continue
		}
		b.WriteString(".ff-flow " + selector + "{")
		for declaration := range strings.SplitSeq(strings.TrimSuffix(body, "}"), ";") {
			property, value, _ := strings.Cut(declaration, ":")
			if name, is := strings.CutPrefix(value, "$"); is {
				b.WriteString(property + ":" + lightOf(name) + ";")
				value = "var(--ff-" + name + ")"
			}
			b.WriteString(property + ":" + value + ";")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func lightOf(name string) string {
	for _, t := range tokens {
		if t.name == name {
			return t.light
		}
	}
	return ""
}

package docgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// Functions makes the function reference, a page of Markdown.
func Functions(l *header.Library) string {
	var b strings.Builder
	b.WriteString("# Functions of the engine library\n\n")
	b.WriteString("Every key begins with the deployment's prefix and a colon; " +
		"`{tag}` is the hash tag of the partition. " +
		"A reply is an array: `1`, a status, values; or `0`, an error code, details. " +
		"An empty list can be an empty text. " +
		"Times are unix milliseconds, durations milliseconds.\n\n")
	b.WriteString("Flags: *readonly* writes nothing; *repeatable* may be sent again with the same arguments; " +
		"*derives* touches keys of the same tag that are not in KEYS; " +
		"*positional* reads its arguments by their position; *fence* checks lease id, epoch and attempt id; *operator* is for people, not workers; " +
		"*intake* brings new work or data: a server whose memory is full refuses it with `OOM`, and nothing else " +
		"(all others that write are registered with `allow-oom`).\n\n")
	for _, family := range []struct {
		title     string
		composite bool
	}{{"Composite calls", true}, {"Contract calls", false}} {
		fmt.Fprintf(&b, "## %s\n\n| Function | Go | Flags | |\n| --- | --- | --- | --- |\n", family.title)
		for _, f := range l.Functions {
			if f.Composite() == family.composite {
				first, _, _ := strings.Cut(f.Summary, ". ")
				name, flags := f.WireName(), flagText(f)
				fmt.Fprintf(&b, "| [`%s`](#%s) | `%s` | %s | %s |\n", name, name, f.GoName, flags, cell(first))
			}
		}
		b.WriteByte('\n')
	}
	for _, f := range l.Functions {
		docFunction(&b, l, f)
	}
	b.WriteString("## Records\n")
	for _, r := range l.Records {
		fmt.Fprintf(&b, "\n### %s\n\n| Field | Type |\n| --- | --- |\n", r.Name)
		for _, x := range r.Fields {
			fmt.Fprintf(&b, "| %s | %s |\n", x.Name, typeText(x))
		}
	}
	b.WriteString("\n## Keys\n\n| Template | Pattern |\n| --- | --- |\n")
	for _, t := range l.Templates {
		fmt.Fprintf(&b, "| %s | `%s` |\n", t.Name, t.Pattern())
	}
	docTexts(&b, l)
	return b.String()
}

func flagText(f *header.Function) string {
	var out []string
	for _, w := range header.KnownFlags {
		if f.Flags[w] {
			out = append(out, w)
		}
	}
	return strings.Join(out, ", ")
}

func cell(s string) string { return strings.ReplaceAll(strings.TrimSuffix(s, "."), "|", "\\|") }

func docFunction(b *strings.Builder, l *header.Library, f *header.Function) {
	fmt.Fprintf(b, "### %s\n\n%s\n\n", f.WireName(), f.Summary)
	if s := flagText(f); s != "" {
		fmt.Fprintf(b, "Flags: %s.\n\n", s)
	}
	if len(f.Keys) > 0 {
		b.WriteString("| KEYS | Role | Key |\n| --- | --- | --- |\n")
		for i, k := range f.Keys {
			n := fmt.Sprint(i + 1)
			if k.Many {
				n += " …"
			}
			note := k.Template
			if t := l.Template(k.Template); t != nil {
				note = "`" + header.BoundPattern(t, k) + "`"
			}
			if k.Optional {
				note += ", optional"
			}
			if k.ChosenBy != "" {
				note += ", or the index that belongs to " + k.ChosenBy
			}
			if k.Doc != "" {
				note += "; " + k.Doc
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", n, k.Role, cell(note))
		}
		b.WriteByte('\n')
	}
	docArguments(b, f)
	b.WriteString("Replies:\n\n")
	for _, r := range f.Replies {
		fmt.Fprintf(b, "- `%s`\n", replyText(r))
	}
	b.WriteByte('\n')
	if len(f.Errors) > 0 {
		b.WriteString("Errors:\n\n")
		for _, e := range f.Errors {
			var details []string
			for _, d := range e.Details {
				details = append(details, d.Name)
			}
			line := "`" + e.Code + "`"
			if len(details) > 0 {
				line += " (" + strings.Join(details, ", ") + ")"
			}
			for _, w := range f.WritesOn {
				if w.Code == e.Code {
					line += "; writes " + strings.Join(w.Keys, ", ")
				}
			}
			fmt.Fprintf(b, "- %s\n", line)
		}
		b.WriteByte('\n')
	}
}

func docArguments(b *strings.Builder, f *header.Function) {
	if len(f.Args) == 0 {
		return
	}
	b.WriteString("| ARGV | Type | |\n| --- | --- | --- |\n")
	row := func(name, typ string, notes ...string) {
		notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, typ, cell(strings.Join(notes, "; ")))
	}
	optional := func(x header.Field) string {
		if x.Optional {
			return header.OptionalNote(x)
		}
		return ""
	}
	for _, a := range f.Args {
		switch a.Kind {
		case header.ArgScalar:
			row(a.Name, a.Field.Scalar, optional(a.Field), a.Doc)
		case header.ArgInclude:
			for _, x := range a.Fields {
				row(x.Name, x.Scalar, optional(x))
			}
		case header.ArgRest:
			row(a.Name+" …", a.Field.Scalar, "the rest", a.Doc)
		case header.ArgGroup, header.ArgColumns:
			how := "a count, then for each: "
			if a.Kind == header.ArgColumns {
				how = "a count, then for each field all values: "
			}
			var fields []string
			for _, x := range a.Fields {
				fields = append(fields, x.Name+" "+x.Scalar)
			}
			row(a.Name+" …", "group", how+strings.Join(fields, ", "))
		}
	}
	b.WriteByte('\n')
}

func replyText(r header.Reply) string {
	var parts []string
	if r.Form == header.ReplyRaw {
		return typeText(r.Fields[0])
	}
	parts = append(parts, r.Status)
	for _, x := range r.Fields {
		parts = append(parts, x.Name+":"+typeText(x))
	}
	return strings.Join(parts, " ")
}

func typeText(x header.Field) string {
	opt := ""
	if x.Optional {
		opt = "?"
	}
	head := map[header.Shape]string{header.ListOf: "list", header.RestOf: "rest", header.GroupOf: "group"}[x.Shape]
	switch {
	case x.Shape == header.Scalar:
		return x.Scalar + opt
	case x.Shape == header.PairsOf:
		return "pairs"
	case x.Record != "":
		return head + "(" + x.Record + ")"
	case x.Scalar != "":
		return head + "(" + x.Scalar + ")"
	}
	var inner []string
	for _, f := range x.Inline {
		inner = append(inner, f.Name+":"+typeText(f))
	}
	return head + "(" + strings.Join(inner, " ") + ")"
}

// docTexts writes the part of the function reference about messages and texts.
func docTexts(b *strings.Builder, l *header.Library) {
	b.WriteString("\n## Messages\n\nA value in a message or text ends where the text after it begins, " +
		"which it must not contain; the last value may be any text. " +
		"A value with a `?` is omitted when it is empty, together with the text before it. " +
		"`{x:'text'}` is the text in quotes, or nothing. " +
		"A receiver ignores unknown messages.\n\n" +
		"| Message | Channels | Text |\n| --- | --- | --- |\n")
	for _, m := range l.Forms {
		if m.Kind != header.FormMessage && m.Kind != header.FormFrame {
			continue
		}
		var channels []string
		for _, name := range m.Channels {
			if t := l.Template(name); t != nil {
				channels = append(channels, "`"+t.Pattern()+"`")
			}
		}
		text := "`" + m.Declared() + "`"
		if m.Kind == header.FormFrame {
			text = "`" + m.Parts[0].Literal +
				" `, then messages of the channel, each after its length in bytes and a blank"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", m.Name, strings.Join(channels, ", "), text)
	}
	b.WriteString("\n## Texts\n\nTexts in arguments, replies and stored values.\n\n| Text | Form |\n| --- | --- |\n")
	for _, m := range l.Forms {
		switch m.Kind {
		case header.FormText:
			fmt.Fprintf(b, "| %s | `%s` |\n", m.Name, m.Declared())
		case header.FormList:
			fmt.Fprintf(b, "| %s | a list of `%s` |\n", m.Name, m.Declared())
		case header.FormDigits:
			fmt.Fprintf(b, "| %s | one digit for each element: `%s` |\n", m.Name, m.Declared())
		case header.FormSet:
			fmt.Fprintf(b, "| %s | a set: a line feed, then each `%s` followed by a line feed |\n",
				m.Name, m.Declared())
		}
	}
}

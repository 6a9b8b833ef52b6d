package main

import (
	"fmt"
	"slices"
	"strings"
)

// emitDocs makes the function reference, a page of Markdown.
func emitDocs(l *library, plans []*plan) string {
	var b strings.Builder
	b.WriteString("# Functions of the engine library\n\n")
	b.WriteString("Every key begins with the deployment's prefix and a colon; " +
		"`{tag}` is the hash tag of the partition. " +
		"A reply is an array: `1`, a status, values; or `0`, an error code, details. " +
		"An empty list can be an empty text. " +
		"Times are unix milliseconds, durations milliseconds.\n\n")
	b.WriteString("Flags: *readonly* writes nothing; *repeatable* may be sent again with the same arguments; " +
		"*derives* touches keys of the same tag that are not in KEYS; " +
		"*fence* checks lease id, epoch and attempt id; *operator* is for people, not workers; " +
		"*intake* brings new work or data: a server whose memory is full refuses it with `OOM`, and nothing else " +
		"(all others that write are registered with `allow-oom`).\n\n")
	for _, family := range []struct {
		title     string
		composite bool
	}{{"Composite calls", true}, {"Contract calls", false}} {
		fmt.Fprintf(&b, "## %s\n\n| Function | Go | Flags | |\n| --- | --- | --- | --- |\n", family.title)
		for _, p := range plans {
			if p.composite() == family.composite {
				first, _, _ := strings.Cut(p.summary, ". ")
				name, flags := p.wireName(), flagText(p.function)
				fmt.Fprintf(&b, "| [`%s`](#%s) | `%s` | %s | %s |\n", name, name, p.goName, flags, cell(first))
			}
		}
		b.WriteByte('\n')
	}
	for _, p := range plans {
		docFunction(&b, p)
	}
	b.WriteString("## Records\n")
	for _, r := range l.records {
		fmt.Fprintf(&b, "\n### %s\n\n| Field | Type |\n| --- | --- |\n", r.name)
		for _, x := range r.fields {
			fmt.Fprintf(&b, "| %s | %s |\n", x.name, typeText(x))
		}
	}
	b.WriteString("\n## Keys\n\n| Template | Pattern |\n| --- | --- |\n")
	for _, t := range l.templates {
		fmt.Fprintf(&b, "| %s | `%s` |\n", t.name, t.pattern())
	}
	docTexts(&b, l)
	return b.String()
}

func flagText(f *function) string {
	var out []string
	for _, w := range knownFlags {
		if f.flags[w] {
			out = append(out, w)
		}
	}
	return strings.Join(out, ", ")
}

func cell(s string) string { return strings.ReplaceAll(strings.TrimSuffix(s, "."), "|", "\\|") }

func docFunction(b *strings.Builder, p *plan) {
	fmt.Fprintf(b, "### %s\n\n%s\n\n", p.wireName(), p.summary)
	if s := flagText(p.function); s != "" {
		fmt.Fprintf(b, "Flags: %s.\n\n", s)
	}
	if len(p.keys) > 0 {
		b.WriteString("| KEYS | Role | Key |\n| --- | --- | --- |\n")
		for i, k := range p.keys {
			n := fmt.Sprint(i + 1)
			if k.many {
				n += " …"
			}
			note := k.template
			if t := p.lib.template(k.template); t != nil {
				note = "`" + boundPattern(t, k) + "`"
			}
			if k.optional {
				note += ", optional"
			}
			if k.chosenBy != "" {
				note += ", or the index that belongs to " + k.chosenBy
			}
			if k.doc != "" {
				note += "; " + k.doc
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", n, k.role, cell(note))
		}
		b.WriteByte('\n')
	}
	docArguments(b, p)
	b.WriteString("Replies:\n\n")
	for _, r := range p.replies {
		fmt.Fprintf(b, "- `%s`\n", replyText(r))
	}
	b.WriteByte('\n')
	if len(p.errors) > 0 {
		b.WriteString("Errors:\n\n")
		for _, e := range p.errors {
			var details []string
			for _, d := range e.details {
				details = append(details, d.name)
			}
			line := "`" + e.code + "`"
			if len(details) > 0 {
				line += " (" + strings.Join(details, ", ") + ")"
			}
			for _, w := range p.writesOn {
				if w.code == e.code {
					line += "; writes " + strings.Join(w.keys, ", ")
				}
			}
			fmt.Fprintf(b, "- %s\n", line)
		}
		b.WriteByte('\n')
	}
}

func boundPattern(t *template, k key) string {
	s := ""
	for _, part := range t.parts {
		switch {
		case part.param == "":
			s += part.literal
		default:
			s += "{" + k.source(part.param) + "}"
		}
	}
	return s
}

func docArguments(b *strings.Builder, p *plan) {
	if len(p.args) == 0 {
		return
	}
	b.WriteString("| ARGV | Type | |\n| --- | --- | --- |\n")
	row := func(name, typ string, notes ...string) {
		notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, typ, cell(strings.Join(notes, "; ")))
	}
	optional := func(x field) string {
		if x.optional {
			return optionalNote(x)
		}
		return ""
	}
	for _, a := range p.args {
		switch a.kind {
		case argScalar:
			row(a.name, a.field.scalar, optional(a.field), a.doc)
		case argInclude:
			for _, x := range a.fields {
				row(x.name, x.scalar, optional(x))
			}
		case argRest:
			row(a.name+" …", a.field.scalar, "the rest", a.doc)
		case argGroup, argColumns:
			how := "a count, then for each: "
			if a.kind == argColumns {
				how = "a count, then for each field all values: "
			}
			var fields []string
			for _, x := range a.fields {
				fields = append(fields, x.name+" "+x.scalar)
			}
			row(a.name+" …", "group", how+strings.Join(fields, ", "))
		}
	}
	b.WriteByte('\n')
}

func replyText(r reply) string {
	var parts []string
	if r.form == replyRaw {
		return typeText(r.fields[0])
	}
	parts = append(parts, r.status)
	for _, x := range r.fields {
		parts = append(parts, x.name+":"+typeText(x))
	}
	return strings.Join(parts, " ")
}

func typeText(x field) string {
	opt := ""
	if x.optional {
		opt = "?"
	}
	head := map[shape]string{listOf: "list", restOf: "rest", groupOf: "group"}[x.shape]
	switch {
	case x.shape == scalar:
		return x.scalar + opt
	case x.shape == pairsOf:
		return "pairs"
	case x.record != "":
		return head + "(" + x.record + ")"
	case x.scalar != "":
		return head + "(" + x.scalar + ")"
	}
	var inner []string
	for _, f := range x.inline {
		inner = append(inner, f.name+":"+typeText(f))
	}
	return head + "(" + strings.Join(inner, " ") + ")"
}

// docTexts writes the part of the function reference about messages and texts.
func docTexts(b *strings.Builder, l *library) {
	b.WriteString("\n## Messages\n\nA value in a message or text ends where the text after it begins, " +
		"which it must not contain; the last value may be any text. " +
		"A value with a `?` is omitted when it is empty, together with the text before it. " +
		"`{x:'text'}` is the text in quotes, or nothing. " +
		"A receiver ignores unknown messages.\n\n" +
		"| Message | Channels | Text |\n| --- | --- | --- |\n")
	for _, m := range l.forms {
		if m.kind != formMessage && m.kind != formFrame {
			continue
		}
		var channels []string
		for _, name := range m.channels {
			if t := l.template(name); t != nil {
				channels = append(channels, "`"+t.pattern()+"`")
			}
		}
		text := "`" + m.declared() + "`"
		if m.kind == formFrame {
			text = "`" + m.parts[0].literal +
				" `, then messages of the channel, each after its length in bytes and a blank"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", m.name, strings.Join(channels, ", "), text)
	}
	b.WriteString("\n## Texts\n\nTexts in arguments, replies and stored values.\n\n| Text | Form |\n| --- | --- |\n")
	for _, m := range l.forms {
		switch m.kind {
		case formText:
			fmt.Fprintf(b, "| %s | `%s` |\n", m.name, m.declared())
		case formList:
			fmt.Fprintf(b, "| %s | a list of `%s` |\n", m.name, m.declared())
		case formDigits:
			fmt.Fprintf(b, "| %s | one digit for each element: `%s` |\n", m.name, m.declared())
		case formSet:
			fmt.Fprintf(b, "| %s | a set: a line feed, then each `%s` followed by a line feed |\n",
				m.name, m.declared())
		}
	}
}

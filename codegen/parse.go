package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	tagLine          = regexp.MustCompile(`^--\s?@([a-z_]+)\s*(.*)$`)
	continuationLine = regexp.MustCompile(`^--\s{3,}(\S.*)$`)
	definitionLine   = regexp.MustCompile(`^function F\.(\w+)\s*\(`)
	hookLine         = regexp.MustCompile(`^function (\w+)\.(\w+)\s*\(`)
)

// tag is one @word with its text, continuation lines joined by line breaks.
type tag struct {
	pos  position
	word string
	text string
}

// readHeaders reads the headers of files. Faults go to p; what could be read is returned.
func readHeaders(files []sourceFile, p *problems) *library {
	l := &library{files: files, hooks: map[moduleField]position{}}
	for _, f := range files {
		parseFile(l, f, p)
	}
	resolve(l, p)
	assignGoNames(l)
	return l
}

func parseFile(l *library, file sourceFile, p *problems) {
	lines := strings.Split(file.text, "\n")
	var block []tag
	for i, text := range lines {
		pos := position{file.name, i + 1}
		if m := tagLine.FindStringSubmatch(text); m != nil {
			block = append(block, tag{pos, m[1], strings.TrimSpace(m[2])})
			continue
		}
		if m := continuationLine.FindStringSubmatch(text); m != nil && len(block) > 0 {
			last := &block[len(block)-1]
			last.text = strings.TrimSpace(last.text + "\n" + strings.TrimSpace(m[1]))
			continue
		}
		if strings.HasPrefix(text, "--") {
			continue
		}
		parseBlock(l, block, lines, pos, p)
		block = nil
	}
	if len(block) > 0 {
		parseBlock(l, block, lines, position{file.name, len(lines)}, p)
	}
}

// parseBlock takes the tags of one comment block; end is the line after it.
func parseBlock(l *library, block []tag, lines []string, end position, p *problems) {
	var fn *function
	var row *rowLayout
	var store *storeDecl
	for _, t := range block {
		if isRowTag(t.word) {
			row = takeRow(l, row, t, p)
			continue
		}
		switch t.word {
		case "store", "call":
			store = takeStore(l, store, t, p)
			continue
		case "template", "record", "arguments", "errors":
			declare(l, t, p)
			continue
		case "message", "text", "list", "set", "digits", "frame":
			takeForm(l, t, p)
			continue
		case "hook":
			takeHook(l, t, lines, end, p)
			continue
		case "function":
			fn = &function{pos: t.pos, name: strings.Fields(t.text + " ?")[0], flags: map[string]bool{}}
			l.functions = append(l.functions, fn)
			takeBody(fn, lines, end, p)
			continue
		}
		if fn == nil {
			p.add(t.pos, "@%s outside a function header", t.word)
			continue
		}
		if err := fn.take(t); err != nil {
			p.add(t.pos, "@%s: %v", t.word, err)
		}
	}
}

// takeHook takes a hook: a function of a module that another file sets. What is declared is what a library without that
// file does.
func takeHook(l *library, t tag, lines []string, end position, p *problems) {
	m := hookLine.FindStringSubmatch(lines[end.line-1])
	if m == nil {
		p.add(t.pos, "@hook is not followed by the definition of a function of a module")
		return
	}
	l.hooks[moduleField{m[1], m[2]}] = end
}

// takeBody finds the definition below the header and the text of the function.
func takeBody(fn *function, lines []string, end position, p *problems) {
	i := end.line - 1
	for i < len(lines) && strings.TrimSpace(lines[i]) == "" {
		i++
	}
	var m []string
	if i < len(lines) {
		m = definitionLine.FindStringSubmatch(lines[i])
	}
	if m == nil || m[1] != fn.name {
		p.add(fn.pos, "header of %s is not followed by `function F.%s(K, A)`", fn.name, fn.name)
		return
	}
	fn.bodyLine = i + 1
	stop := slices.Index(lines[i:], "end")
	if strings.HasSuffix(strings.TrimSpace(lines[i]), " end") {
		stop = 0
	}
	if stop < 0 {
		p.add(position{fn.pos.file, i + 1}, "no `end` in the first column closes %s", fn.name)
		return
	}
	fn.body = strings.Join(lines[i:i+stop+1], "\n")
}

// declare processes a tag outside function headers.
func declare(l *library, t tag, p *problems) {
	list, err := words(t.text)
	if err != nil || len(list) < 2 {
		p.add(t.pos, "@%s needs a name and a definition", t.word)
		return
	}
	name, rest := list[0], list[1:]
	switch t.word {
	case "template":
		if l.template(name) != nil {
			p.add(t.pos, "template %s is declared twice", name)
		}
		var tpl *template
		if tpl, err = parseTemplate(t.pos, name, rest[0]); err == nil {
			tpl.parsed = slices.Equal(rest[1:], []string{"parsed"})
			l.templates = append(l.templates, tpl)
			err = tpl.checkParsed()
		}
	case "record":
		if l.record(name) != nil {
			p.add(t.pos, "record %s is declared twice", name)
		}
		r := &record{pos: t.pos, name: name}
		r.fields, err = parseFields(rest)
		l.records = append(l.records, r)
	case "arguments":
		if l.argumentSet(name) != nil {
			p.add(t.pos, "argument set %s is declared twice", name)
		}
		s := &argumentSet{pos: t.pos, name: name}
		s.fields, err = parseFields(rest)
		l.arguments = append(l.arguments, s)
	case "errors":
		if l.errorSet(name) != nil {
			p.add(t.pos, "error set %s is declared twice", name)
		}
		s := &errorSet{pos: t.pos, name: name}
		for _, code := range rest {
			// a details field belongs to the code before it
			if d, typ, ok := strings.Cut(code, ":"); ok && len(s.errors) > 0 {
				f, ferr := parseType(d, typ)
				if ferr != nil {
					err = ferr
					break
				}
				last := &s.errors[len(s.errors)-1]
				last.details = append(last.details, f)
				continue
			}
			if !isName(code) {
				err = fmt.Errorf("%q is no error code", code)
				break
			}
			s.errors = append(s.errors, errorDecl{pos: t.pos, code: code})
		}
		l.errorSets = append(l.errorSets, s)
	}
	if err != nil {
		p.add(t.pos, "@%s %s: %v", t.word, name, err)
	}
}

var knownFlags = []string{"readonly", "repeatable", "derives", "fence", "operator", "intake"}

// take adds one tag to the header.
func (f *function) take(t tag) error {
	list, err := words(t.text)
	if err != nil && t.word != "summary" {
		return err
	}
	first := ""
	if len(list) > 0 {
		first = list[0]
	}
	switch t.word {
	case "summary":
		f.summary = strings.Join(strings.Fields(t.text), " ")
		return nil
	case "flags":
		for _, w := range list {
			w = strings.TrimSuffix(w, ",")
			if !slices.Contains(knownFlags, w) {
				return fmt.Errorf("unknown flag %q", w)
			}
			f.flags[w] = true
		}
		return nil
	case "go":
		f.goName = first
		return nil
	case "tag":
		f.tag = first
		return nil
	case "key", "keys":
		return f.takeKey(t, list)
	case "arg", "args", "include", "group", "columns":
		return f.takeArgument(t, list)
	case "reply":
		return f.takeReply(t, list)
	case "error":
		return f.takeError(t, list)
	case "writes_on":
		if len(list) < 1 {
			return fmt.Errorf("needs a code")
		}
		f.writesOn = append(f.writesOn, writesOn{t.pos, first, list[1:]})
		return nil
	}
	return fmt.Errorf("unknown tag")
}

func (f *function) takeKey(t tag, list []string) error {
	if len(list) < 2 || !isName(list[0]) {
		return fmt.Errorf("needs a role and a template")
	}
	k := key{pos: t.pos, role: list[0], many: t.word == "keys", bindings: map[string]string{}}
	name, bindings, bound := strings.Cut(list[1], "(")
	k.template = name
	if bound {
		for b := range strings.FieldsSeq(strings.ReplaceAll(strings.TrimSuffix(bindings, ")"), ",", " ")) {
			param, source, ok := strings.Cut(b, "=")
			if !ok {
				return fmt.Errorf("binding %q is not param=source", b)
			}
			k.bindings[param] = source
		}
	}
	rest := list[2:]
	if len(rest) > 0 && rest[0] == "optional" {
		k.optional, rest = true, rest[1:]
	} else if len(rest) > 0 {
		if chosenBy, ok := strings.CutPrefix(rest[0], "chosen_by="); ok {
			k.chosenBy, rest = chosenBy, rest[1:]
		}
	}
	k.doc = strings.Join(rest, " ")
	if n := len(f.keys); n > 0 && f.keys[n-1].many {
		return fmt.Errorf("nothing may follow @keys")
	}
	f.keys = append(f.keys, k)
	return nil
}

func (f *function) takeArgument(t tag, list []string) error {
	if n := len(f.args); n > 0 && f.args[n-1].kind == argRest {
		return fmt.Errorf("nothing may follow @args")
	}
	if len(list) == 0 || !isName(list[0]) {
		return fmt.Errorf("needs a name")
	}
	a := argument{pos: t.pos, name: list[0]}
	switch t.word {
	case "include":
		a.kind, a.set = argInclude, list[0]
	case "group", "columns":
		a.kind = argGroup
		if t.word == "columns" {
			a.kind = argColumns
		}
		if len(list) == 2 && isName(list[1]) {
			a.set = list[1]
			break
		}
		var err error
		if a.fields, err = parseFields(list[1:]); err != nil {
			return err
		}
		if len(a.fields) == 0 {
			return fmt.Errorf("needs fields")
		}
	default:
		if len(list) < 2 {
			return fmt.Errorf("%s needs a type", list[0])
		}
		fd, err := parseType(list[0], list[1])
		if err != nil {
			return err
		}
		rest := list[2:]
		if len(rest) > 0 && rest[0] == "optional" {
			fd.optional, rest = true, rest[1:]
		} else if fallback, ok := cutFallback(rest); ok {
			fd.optional, fd.fallback, rest = true, fallback, rest[1:]
		} else if len(rest) > 0 && rest[0] == "omittable" {
			fd.omittable, rest = true, rest[1:]
		}
		a.doc = strings.Join(rest, " ")
		fd.doc = a.doc
		a.field = fd
		if t.word == "args" {
			a.kind = argRest
		}
	}
	f.args = append(f.args, a)
	return nil
}

// cutFallback returns the text after `optional=` when that is how the words begin.
func cutFallback(words []string) (string, bool) {
	if len(words) == 0 {
		return "", false
	}
	return strings.CutPrefix(words[0], "optional=")
}

var statusName = regexp.MustCompile(`^[A-Z][A-Z_]*$`)

func (f *function) takeReply(t tag, list []string) error {
	r := reply{pos: t.pos}
	if len(list) == 2 && list[0] == "raw" {
		r.form = replyRaw
		name, typ, named := strings.Cut(list[1], ":")
		if !named {
			name, typ = "value", list[1]
		}
		fd, err := parseType(name, typ)
		if err != nil {
			return err
		}
		r.fields = []field{fd}
		f.replies = append(f.replies, r)
		return nil
	}
	if len(list) > 0 && list[0] == "bare" {
		r.form, list = replyBare, list[1:]
	}
	if len(list) == 0 || !statusName.MatchString(list[0]) {
		return fmt.Errorf("needs a status in capitals")
	}
	r.status = list[0]
	var err error
	if r.fields, err = parseFields(list[1:]); err != nil {
		return err
	}
	f.replies = append(f.replies, r)
	return nil
}

func (f *function) takeError(t tag, list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("needs a code")
	}
	e := errorDecl{pos: t.pos, code: list[0]}
	if code, ok := strings.CutSuffix(list[0], ":*"); ok && isName(code) {
		e.code, e.details = code, []field{{name: "value", scalar: "text"}}
		f.errors = append(f.errors, e)
		return nil
	}
	if !strings.HasPrefix(list[0], "set:") {
		if !isName(list[0]) {
			return fmt.Errorf("%q is no error code", list[0])
		}
		// a word that is not name:type begins the description
		fields := list[1:]
		if i := slices.IndexFunc(fields, func(w string) bool { return !strings.Contains(w, ":") }); i >= 0 {
			fields = fields[:i]
		}
		var err error
		if e.details, err = parseFields(fields); err != nil {
			return err
		}
	}
	f.errors = append(f.errors, e)
	return nil
}

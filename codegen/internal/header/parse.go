package header

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

// Tag is one @word with its text, continuation lines joined by line breaks.
type Tag struct {
	Pos  Position
	Word string
	Text string
}

// Read reads the headers of files. It adds faults to p and returns the headers that it could read.
func Read(files []SourceFile, p *Problems) *Library {
	l := &Library{Files: files, Hooks: map[ModuleField]Position{}}
	for _, f := range files {
		parseFile(l, f, p)
	}
	resolve(l, p)
	assignGoNames(l)
	return l
}

func parseFile(l *Library, file SourceFile, p *Problems) {
	lines := strings.Split(file.Text, "\n")
	var block []Tag
	for i, text := range lines {
		pos := Position{file.Name, i + 1}
		if m := tagLine.FindStringSubmatch(text); m != nil {
			block = append(block, Tag{pos, m[1], strings.TrimSpace(m[2])})
			continue
		}
		if m := continuationLine.FindStringSubmatch(text); m != nil && len(block) > 0 {
			last := &block[len(block)-1]
			last.Text = strings.TrimSpace(last.Text + "\n" + strings.TrimSpace(m[1]))
			continue
		}
		if strings.HasPrefix(text, "--") {
			continue
		}
		parseBlock(l, block, lines, pos, p)
		block = nil
	}
	if len(block) > 0 {
		parseBlock(l, block, lines, Position{file.Name, len(lines)}, p)
	}
}

// parseBlock takes the tags of one comment block; end is the line after it.
func parseBlock(l *Library, block []Tag, lines []string, end Position, p *Problems) {
	var fn *Function
	var row *Row
	var store *Store
	for _, t := range block {
		if isRowTag(t.Word) {
			row = takeRow(l, row, t, p)
			continue
		}
		switch t.Word {
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
			fn = &Function{Pos: t.Pos, Name: strings.Fields(t.Text + " ?")[0], Flags: map[string]bool{}}
			l.Functions = append(l.Functions, fn)
			takeBody(fn, lines, end, p)
			continue
		}
		if fn == nil {
			p.Add(t.Pos, "@%s outside a function header", t.Word)
			continue
		}
		if err := fn.Take(t); err != nil {
			p.Add(t.Pos, "@%s: %v", t.Word, err)
		}
	}
}

// takeHook takes a hook: a function of a module that another file sets. A library without that file uses the declared
// function.
func takeHook(l *Library, t Tag, lines []string, end Position, p *Problems) {
	m := hookLine.FindStringSubmatch(lines[end.Line-1])
	if m == nil {
		p.Add(t.Pos, "@hook is not followed by the definition of a function of a module")
		return
	}
	l.Hooks[ModuleField{m[1], m[2]}] = end
}

// takeBody finds the definition below the header and the text of the function.
func takeBody(fn *Function, lines []string, end Position, p *Problems) {
	i := end.Line - 1
	for i < len(lines) && strings.TrimSpace(lines[i]) == "" {
		i++
	}
	var m []string
	if i < len(lines) {
		m = definitionLine.FindStringSubmatch(lines[i])
	}
	if m == nil || m[1] != fn.Name {
		p.Add(fn.Pos, "header of %s is not followed by `function F.%s(K, A)`", fn.Name, fn.Name)
		return
	}
	fn.BodyLine = i + 1
	stop := slices.Index(lines[i:], "end")
	if strings.HasSuffix(strings.TrimSpace(lines[i]), " end") {
		stop = 0
	}
	if stop < 0 {
		p.Add(Position{fn.Pos.File, i + 1}, "no `end` in the first column closes %s", fn.Name)
		return
	}
	fn.Body = strings.Join(lines[i:i+stop+1], "\n")
}

// declare processes a tag outside function headers.
func declare(l *Library, t Tag, p *Problems) {
	list, err := words(t.Text)
	if err != nil || len(list) < 2 {
		p.Add(t.Pos, "@%s needs a name and a definition", t.Word)
		return
	}
	name, rest := list[0], list[1:]
	switch t.Word {
	case "template":
		if l.Template(name) != nil {
			p.Add(t.Pos, "template %s is declared twice", name)
		}
		var tpl *Template
		if tpl, err = parseTemplate(t.Pos, name, rest[0]); err == nil {
			tpl.Parsed = slices.Equal(rest[1:], []string{"parsed"})
			l.Templates = append(l.Templates, tpl)
			err = tpl.checkParsed()
		}
	case "record":
		if l.Record(name) != nil {
			p.Add(t.Pos, "record %s is declared twice", name)
		}
		r := &record{Pos: t.Pos, Name: name}
		r.Fields, err = parseFields(rest)
		l.Records = append(l.Records, r)
	case "arguments":
		if l.argumentSet(name) != nil {
			p.Add(t.Pos, "argument set %s is declared twice", name)
		}
		s := &argumentSet{Pos: t.Pos, Name: name}
		s.Fields, err = parseFields(rest)
		l.Arguments = append(l.Arguments, s)
	case "errors":
		if l.errorSet(name) != nil {
			p.Add(t.Pos, "error set %s is declared twice", name)
		}
		s := &errorSet{pos: t.Pos, name: name}
		for _, code := range rest {
			// a details field belongs to the code before it
			if d, typ, ok := strings.Cut(code, ":"); ok && len(s.errors) > 0 {
				f, ferr := parseType(d, typ)
				if ferr != nil {
					err = ferr
					break
				}
				last := &s.errors[len(s.errors)-1]
				last.Details = append(last.Details, f)
				continue
			}
			if !isName(code) {
				err = fmt.Errorf("%q is not an error code", code)
				break
			}
			s.errors = append(s.errors, ErrorDecl{Pos: t.Pos, Code: code})
		}
		l.errorSets = append(l.errorSets, s)
	}
	if err != nil {
		p.Add(t.Pos, "@%s %s: %v", t.Word, name, err)
	}
}

var KnownFlags = []string{"readonly", "repeatable", "derives", "fence", "operator", "intake", "positional"}

// Take adds one tag to the header.
func (f *Function) Take(t Tag) error {
	list, err := words(t.Text)
	if err != nil && t.Word != "summary" {
		return err
	}
	first := ""
	if len(list) > 0 {
		first = list[0]
	}
	switch t.Word {
	case "summary":
		f.Summary = strings.Join(strings.Fields(t.Text), " ")
		return nil
	case "flags":
		for _, w := range list {
			w = strings.TrimSuffix(w, ",")
			if !slices.Contains(KnownFlags, w) {
				return fmt.Errorf("unknown flag %q", w)
			}
			f.Flags[w] = true
		}
		return nil
	case "go":
		f.GoName = first
		return nil
	case "tag":
		f.Tag = first
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
		f.WritesOn = append(f.WritesOn, writesOn{t.Pos, first, list[1:]})
		return nil
	}
	return fmt.Errorf("unknown tag")
}

func (f *Function) takeKey(t Tag, list []string) error {
	if len(list) < 2 || !isName(list[0]) {
		return fmt.Errorf("needs a role and a template")
	}
	k := Key{Pos: t.Pos, Role: list[0], Many: t.Word == "keys", Bindings: map[string]string{}}
	name, bindings, bound := strings.Cut(list[1], "(")
	k.Template = name
	if bound {
		for b := range strings.FieldsSeq(strings.ReplaceAll(strings.TrimSuffix(bindings, ")"), ",", " ")) {
			param, source, ok := strings.Cut(b, "=")
			if !ok {
				return fmt.Errorf("binding %q is not param=source", b)
			}
			k.Bindings[param] = source
		}
	}
	rest := list[2:]
	if len(rest) > 0 && rest[0] == "optional" {
		k.Optional, rest = true, rest[1:]
	} else if len(rest) > 0 {
		if chosenBy, ok := strings.CutPrefix(rest[0], "chosen_by="); ok {
			k.ChosenBy, rest = chosenBy, rest[1:]
		}
	}
	k.Doc = strings.Join(rest, " ")
	if n := len(f.Keys); n > 0 && f.Keys[n-1].Many {
		return fmt.Errorf("nothing may follow @keys")
	}
	f.Keys = append(f.Keys, k)
	return nil
}

func (f *Function) takeArgument(t Tag, list []string) error {
	if n := len(f.Args); n > 0 && f.Args[n-1].Kind == ArgRest {
		return fmt.Errorf("nothing may follow @args")
	}
	if len(list) == 0 || !isName(list[0]) {
		return fmt.Errorf("needs a name")
	}
	a := Argument{Pos: t.Pos, Name: list[0]}
	switch t.Word {
	case "include":
		a.Kind, a.Set = ArgInclude, list[0]
	case "group", "columns":
		a.Kind = ArgGroup
		if t.Word == "columns" {
			a.Kind = ArgColumns
		}
		if len(list) == 2 && isName(list[1]) {
			a.Set = list[1]
			break
		}
		var err error
		if a.Fields, err = parseFields(list[1:]); err != nil {
			return err
		}
		if len(a.Fields) == 0 {
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
			fd.Optional, rest = true, rest[1:]
		} else if fallback, ok := cutFallback(rest); ok {
			fd.Optional, fd.Fallback, rest = true, fallback, rest[1:]
		} else if len(rest) > 0 && rest[0] == "omittable" {
			fd.Omittable, rest = true, rest[1:]
		}
		a.Doc = strings.Join(rest, " ")
		fd.Doc = a.Doc
		a.Field = fd
		if t.Word == "args" {
			a.Kind = ArgRest
		}
	}
	f.Args = append(f.Args, a)
	return nil
}

// cutFallback returns the text after `optional=` when that is how the words begin.
func cutFallback(words []string) (string, bool) {
	if len(words) == 0 {
		return "", false
	}
	return strings.CutPrefix(words[0], "optional=")
}

var StatusName = regexp.MustCompile(`^[A-Z][A-Z_]*$`)

func (f *Function) takeReply(t Tag, list []string) error {
	r := Reply{Pos: t.Pos}
	if len(list) == 2 && list[0] == "raw" {
		r.Form = ReplyRaw
		name, typ, named := strings.Cut(list[1], ":")
		if !named {
			name, typ = "value", list[1]
		}
		fd, err := parseType(name, typ)
		if err != nil {
			return err
		}
		r.Fields = []Field{fd}
		f.Replies = append(f.Replies, r)
		return nil
	}
	if len(list) > 0 && list[0] == "bare" {
		r.Form, list = ReplyBare, list[1:]
	}
	if len(list) == 0 || !StatusName.MatchString(list[0]) {
		return fmt.Errorf("needs a status in capitals")
	}
	r.Status = list[0]
	var err error
	if r.Fields, err = parseFields(list[1:]); err != nil {
		return err
	}
	f.Replies = append(f.Replies, r)
	return nil
}

func (f *Function) takeError(t Tag, list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("needs a code")
	}
	e := ErrorDecl{Pos: t.Pos, Code: list[0]}
	if code, ok := strings.CutSuffix(list[0], ":*"); ok && isName(code) {
		e.Code, e.Details = code, []Field{{Name: "value", Scalar: "text"}}
		f.Errors = append(f.Errors, e)
		return nil
	}
	if !strings.HasPrefix(list[0], "set:") {
		if !isName(list[0]) {
			return fmt.Errorf("%q is not an error code", list[0])
		}
		// a word that is not name:type begins the description
		fields := list[1:]
		if i := slices.IndexFunc(fields, func(w string) bool { return !strings.Contains(w, ":") }); i >= 0 {
			fields = fields[:i]
		}
		var err error
		if e.Details, err = parseFields(fields); err != nil {
			return err
		}
	}
	f.Errors = append(f.Errors, e)
	return nil
}

// resolve replaces references to records, argument sets and error sets by their definitions.
func resolve(l *Library, p *Problems) {
	for _, f := range l.Functions {
		for i := range f.Args {
			a := &f.Args[i]
			switch {
			case a.Kind == ArgInclude:
				if s := l.argumentSet(a.Set); s != nil {
					a.Fields = s.Fields
				} else {
					p.Add(a.Pos, "no @arguments %s", a.Set)
				}
			case a.Set != "":
				if r := l.Record(a.Set); r != nil {
					a.Fields = r.Fields
				} else {
					p.Add(a.Pos, "no @record %s", a.Set)
				}
			}
		}
		var errs []ErrorDecl
		for _, e := range f.Errors {
			name, isSet := strings.CutPrefix(e.Code, "set:")
			if !isSet {
				errs = append(errs, e)
				continue
			}
			s := l.errorSet(name)
			if s == nil {
				p.Add(e.Pos, "no @errors %s", name)
				continue
			}
			for _, x := range s.errors {
				x.Pos = e.Pos
				errs = append(errs, x)
			}
		}
		f.Errors = nil
		for _, e := range errs {
			if !slices.ContainsFunc(f.Errors, func(o ErrorDecl) bool { return o.Code == e.Code }) {
				f.Errors = append(f.Errors, e)
			}
		}
	}
}

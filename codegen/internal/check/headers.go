package check

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/codegen/internal/luatext"
	"github.com/flowfabric/flowfabric-go/internal/payload"
)

// Headers reports everything in the headers that contradicts itself or the code below them.
func Headers(l *header.Library, p *header.Problems) {
	for _, r := range l.Records {
		checkFields(l, r.Pos, r.Fields, p)
	}
	for _, t := range l.Templates {
		for _, param := range t.Params() {
			if header.ParamType(param).Kind == header.KindBytes {
				p.Add(t.Pos, "parameter %s of template %s is not a text", param, t.Name)
			}
		}
		if param := t.Unescaped(); param != "" {
			p.Add(t.Pos, "parameter %s of template %s is free text with other parts after it: write {%s%s}", param,
				t.Name, param, header.EscapedMark)
		}
	}
	checkSlots(l, p)
	seen := map[string]*header.Function{}
	goNames := map[string]*header.Function{}
	for _, f := range l.Functions {
		if o := seen[f.Name]; o != nil {
			p.Add(f.Pos, "function %s is declared at %s:%d already", f.Name, o.Pos.File, o.Pos.Line)
		}
		seen[f.Name] = f
		if o := goNames[f.GoName]; o != nil && o.Name != f.Name {
			p.Add(f.Pos, "%s and %s are both %s in Go; give one of them a @go name", f.Name, o.Name, f.GoName)
		}
		goNames[f.GoName] = f
		checkFunction(l, f, p)
	}
	checkErrorCodes(l, p)
}

// checkSlots checks that all bytes of the library's own functions name the slot of package payload to which they
// belong, or are marked as plain: no value of a user goes past the table of slots.
func checkSlots(l *header.Library, p *header.Problems) {
	known := map[string]bool{header.SlotPlain: true}
	for _, s := range payload.Slots() {
		known[s.Name] = true
	}
	check := func(pos header.Position, of string, own bool, fields []header.Field) {
		for _, x := range fields {
			t, _ := header.ScalarNamed(x.Scalar)
			switch {
			case x.Slot != "" && (t.Kind != header.KindBytes || x.Shape != header.Scalar):
				p.Add(pos, "%s: field %s is a %s, which has no slot", of, x.Name, x.Scalar)
			case x.Slot != "" && !known[x.Slot]:
				p.Add(pos, "%s: field %s: package payload has no slot %q", of, x.Name, x.Slot)
			case x.Slot == "" && own && t.Kind == header.KindBytes && t.Name != "json":
				p.Add(pos, "%s: field %s needs the slot of the value, or <plain>: %s<slot>", of, x.Name, x.Scalar)
			}
		}
	}
	ours := map[string]bool{} // sets of arguments
	for _, f := range l.Functions {
		for _, a := range f.Args {
			ours[a.Set] = ours[a.Set] || f.Composite()
		}
	}
	for _, r := range l.Records {
		check(r.Pos, "record "+r.Name, true, r.Fields)
	}
	for _, a := range l.Arguments {
		check(a.Pos, "arguments "+a.Name, ours[a.Name], a.Fields)
	}
	for _, f := range l.Functions {
		own := f.Composite()
		for _, a := range f.Args {
			if a.Kind == header.ArgScalar || a.Kind == header.ArgRest {
				check(a.Pos, f.Name, own, []header.Field{a.Field})
			} else if a.Set == "" {
				check(a.Pos, f.Name, own, a.Fields)
			}
		}
		for _, r := range f.Replies {
			check(r.Pos, f.Name, own, r.Fields)
		}
	}
}

// startsComposite reports whether a key may be the first of a composite call.
func startsComposite(l *header.Library, k header.Key) bool {
	t := l.Template(k.Template)
	return k.Template == "ffx.partition" || t != nil && t.Family() != header.FlowFamily
}

func checkFunction(l *header.Library, f *header.Function, p *header.Problems) {
	if !strings.HasPrefix(f.Name, "ff_") && !strings.HasPrefix(f.Name, "ffx_") {
		p.Add(f.Pos, "function %s begins with neither ff_ nor ffx_", f.Name)
	}
	if f.Summary == "" {
		p.Add(f.Pos, "function %s has no @summary", f.Name)
	}
	if len(f.Replies) == 0 {
		p.Add(f.Pos, "function %s has no @reply", f.Name)
	}
	if f.Composite() && len(f.Keys) > 0 && !startsComposite(l, f.Keys[0]) {
		p.Add(f.Keys[0].Pos, "the first key of a composite call is ffx.partition, or one of a budget or quota")
	}
	checkKeys(l, f, p)
	checkArguments(l, f, p)
	checkReplies(l, f, p)
	checkBody(f, p)
	for _, w := range f.WritesOn {
		declared := slices.ContainsFunc(f.Errors, func(e header.ErrorDecl) bool { return e.Code == w.Code })
		if !declared && !header.StatusName.MatchString(w.Code) {
			p.Add(w.Pos, "@writes_on %s: %s does not declare that error", w.Code, f.Name)
		}
		for _, k := range w.Keys {
			named := func(t *header.Template) bool { return t.Name == k || strings.HasSuffix(t.Name, "."+k) }
			ofRole := func(x header.Key) bool { return x.Role == k }
			if !slices.ContainsFunc(f.Keys, ofRole) && !slices.ContainsFunc(l.Templates, named) {
				p.Add(w.Pos, "@writes_on %s: %s is neither a key role nor a template", w.Code, k)
			}
		}
	}
}

func checkKeys(l *header.Library, f *header.Function, p *header.Problems) {
	roles := map[string]bool{}
	for _, k := range f.Keys {
		if roles[k.Role] {
			p.Add(k.Pos, "key role %s is declared twice", k.Role)
		}
		roles[k.Role] = true
		t := l.Template(k.Template)
		if t == nil {
			p.Add(k.Pos, "unknown template %s", k.Template)
			continue
		}
		if !t.Tagged() {
			p.Add(k.Pos, "template %s has no {tag}: a key without one may live in another slot", k.Template)
		}
		params := t.Params()
		for b := range k.Bindings {
			if !slices.Contains(params, b) {
				p.Add(k.Pos, "template %s has no parameter %s", k.Template, b)
			}
		}
		if k.Many && len(params) == 0 {
			p.Add(k.Pos, "template %s has no parameter that could vary", k.Template)
		}
	}
}

func checkArguments(l *header.Library, f *header.Function, p *header.Problems) {
	names := map[string]bool{}
	use := func(pos header.Position, name string) {
		if names[name] {
			p.Add(pos, "argument %s is declared twice", name)
		}
		names[name] = true
	}
	for _, a := range f.Args {
		switch a.Kind {
		case header.ArgScalar, header.ArgRest:
			use(a.Pos, a.Name)
			if a.Field.Shape != header.Scalar {
				p.Add(a.Pos, "argument %s is not a scalar; use @group or @columns", a.Name)
			}
			if a.Field.Optional && a.Field.Scalar == "attempt_index" {
				p.Add(a.Pos, "an attempt_index cannot be optional: 0 is the first attempt")
			}
			checkFallback(a.Pos, a.Field, p)
		case header.ArgInclude:
			for _, x := range a.Fields {
				use(a.Pos, x.Name)
				checkFallback(a.Pos, x, p)
			}
		case header.ArgGroup, header.ArgColumns:
			use(a.Pos, a.Name)
			for _, x := range a.Fields {
				if x.Shape != header.Scalar {
					p.Add(a.Pos, "field %s of group %s is not a scalar", x.Name, a.Name)
				}
			}
		}
	}
	for _, k := range f.Keys {
		if k.ChosenBy != "" && !names[k.ChosenBy] {
			p.Add(k.Pos, "key %s: chosen_by %s is not an argument", k.Role, k.ChosenBy)
		}
	}
	if f.Tag != "" && f.Tag != "partition" && !names[f.Tag] {
		p.Add(f.Pos, "@tag %s is not an argument", f.Tag)
	}
}

// checkFallback reports faults of the fallback of an optional argument: only texts and whole numbers have one.
func checkFallback(pos header.Position, x header.Field, p *header.Problems) {
	if x.Fallback == "" {
		return
	}
	t, _ := header.ScalarNamed(x.Scalar)
	switch t.Kind {
	case header.KindText:
	case header.KindInt, header.KindMillis:
		if _, err := strconv.ParseInt(x.Fallback, 10, 64); err != nil {
			p.Add(pos, "argument %s: %q is not a whole number", x.Name, x.Fallback)
		}
	default:
		p.Add(pos, "argument %s: a %s has no fallback", x.Name, x.Scalar)
	}
}

func checkReplies(l *header.Library, f *header.Function, p *header.Problems) {
	types := map[string]header.Field{}
	for i, r := range f.Replies {
		if r.Form == header.ReplyRaw && len(f.Replies) > 1 {
			p.Add(r.Pos, "a raw reply must be the only one")
		}
		if r.Form != f.Replies[0].Form {
			p.Add(r.Pos, "replies of one function have one form")
		}
		checkFields(l, r.Pos, r.Fields, p)
		for _, x := range r.Fields {
			o, ok := types[x.Name]
			if ok && (o.Shape != x.Shape || o.Scalar != x.Scalar || o.Record != x.Record ||
				len(o.Inline) != len(x.Inline)) {
				p.Add(r.Pos, "field %s has another type in an earlier reply", x.Name)
			}
			types[x.Name] = x
		}
		for _, o := range f.Replies[:i] {
			if o.Status == r.Status && len(o.Fields) == len(r.Fields) {
				p.Add(r.Pos, "two replies %s with the same number of fields cannot be distinguished", r.Status)
			}
		}
	}
}

func checkFields(l *header.Library, pos header.Position, fields []header.Field, p *header.Problems) {
	for i, x := range fields {
		if (x.Shape == header.RestOf || x.Shape == header.GroupOf) && i != len(fields)-1 {
			p.Add(pos, "field %s takes the rest of the reply and must be the last", x.Name)
		}
		if x.Record != "" && l.Record(x.Record) == nil {
			p.Add(pos, "field %s: no @record %s and no type of that name", x.Name, x.Record)
		}
		if i > 0 && fields[i-1].Optional && !x.Optional {
			p.Add(pos, "field %s follows an optional one: only the end of a reply can be missing", x.Name)
		}
		checkFields(l, pos, x.Inline, p)
	}
}

var (
	useOfKey      = regexp.MustCompile(`\bK\.([a-z_][a-z0-9_]*)`)
	useOfArgument = regexp.MustCompile(`\bA\.([a-z_][a-z0-9_]*)`)
	errCall       = regexp.MustCompile(`\breply\.err\(\s*['"]([a-z_]+)`)
	codeLiteral   = regexp.MustCompile(`['"]([a-z_]+):?['"]`)
)

// checkBody compares the names used in the function with those declared in its header.
func checkBody(f *header.Function, p *header.Problems) {
	keys := map[string]bool{}
	for _, k := range f.Keys {
		keys[k.Role] = true
	}
	args := map[string]bool{}
	for _, a := range f.Args {
		args[a.Name] = a.Kind != header.ArgInclude
		if a.Kind == header.ArgGroup || a.Kind == header.ArgColumns {
			args[a.Name+"_count"] = true
		}
	}
	for _, x := range f.FlatArgs() {
		args[x.Name] = true
	}
	for i, line := range strings.Split(luatext.WithoutStrings(luatext.WithoutComments(f.Body)), "\n") {
		pos := header.Position{File: f.Pos.File, Line: f.BodyLine + i}
		for _, m := range useOfKey.FindAllStringSubmatch(line, -1) {
			if !keys[m[1]] {
				p.Add(pos, "%s uses K.%s, which its header does not declare", f.Name, m[1])
			}
		}
		for _, m := range useOfArgument.FindAllStringSubmatch(line, -1) {
			if !args[m[1]] {
				p.Add(pos, "%s uses A.%s, which its header does not declare", f.Name, m[1])
			}
		}
	}
}

// checkErrorCodes compares the codes in the code with those in the headers.
func checkErrorCodes(l *header.Library, p *header.Problems) {
	declared := map[string]header.Position{}
	for _, f := range l.Functions {
		for _, e := range f.Errors {
			if _, ok := declared[e.Code]; !ok {
				declared[e.Code] = e.Pos
			}
		}
	}
	used := map[string]bool{}
	for _, file := range l.Files {
		for i, line := range strings.Split(luatext.WithoutComments(file.Text), "\n") {
			for _, m := range errCall.FindAllStringSubmatch(line, -1) {
				if _, ok := declared[m[1]]; !ok {
					p.Add(header.Position{File: file.Name, Line: i + 1}, "error code %s is declared by no header", m[1])
				}
			}
			for _, m := range codeLiteral.FindAllStringSubmatch(line, -1) {
				used[m[1]] = true
			}
		}
	}
	for code, pos := range declared {
		if !used[code] {
			p.Add(pos, "error code %s is declared but occurs nowhere in the code", code)
		}
	}
	details := map[string]header.ErrorDecl{}
	for _, f := range l.Functions {
		for _, e := range f.Errors {
			o, ok := details[e.Code]
			if !ok {
				details[e.Code] = e
				continue
			}
			for i := range min(len(o.Details), len(e.Details)) {
				if o.Details[i].Name != e.Details[i].Name {
					p.Add(e.Pos, "detail %d of %s is %s here and %s at %s:%d",
						i+1, e.Code, e.Details[i].Name, o.Details[i].Name, o.Pos.File, o.Pos.Line)
				}
			}
			if len(e.Details) > len(o.Details) {
				details[e.Code] = e
			}
		}
	}
}

// Forms reports forms that cannot be read, names that are declared twice, messages without a channel, and messages
// of one channel that cannot be distinguished.
func Forms(l *header.Library, p *header.Problems) {
	verbs := map[string]*header.Form{}
	for i, m := range l.Forms {
		for _, o := range l.Forms[:i] {
			if o.Name == m.Name {
				p.Add(m.Pos, "%s is declared at %s:%d already", m.Name, o.Pos.File, o.Pos.Line)
			}
		}
		checkParts(m, p)
		for _, channel := range m.Channels {
			if !strings.HasPrefix(channel, "channel.") || l.Template(channel) == nil {
				p.Add(m.Pos, "message %s: no template %s of a channel", m.Name, channel)
			}
			if o := verbs[channel+" "+m.Verb()]; o != nil {
				p.Add(m.Pos, "messages %s and %s of %s cannot be distinguished", o.Name, m.Name, channel)
			}
			verbs[channel+" "+m.Verb()] = m
		}
	}
}

func checkParts(m *header.Form, p *header.Problems) {
	seen := map[string]bool{}
	for i, x := range m.Parts {
		if x.Param == "" {
			continue
		}
		last := i == len(m.Parts)-1
		switch {
		case seen[x.Param]:
			p.Add(m.Pos, "%s has two parameters %s", m.Name, x.Param)
		case x.Mark != "" && i > 0 && !last:
			p.Add(m.Pos, "%s: the mark %s is neither first nor last", m.Name, x.Param)
		case x.Optional && (!last || i == 0 || m.Parts[i-1].Literal == ""):
			p.Add(m.Pos, "%s: %s is optional and not the last part after a text", m.Name, x.Param)
		case x.Mark == "" && !last && m.Parts[i+1].Literal == "" && m.Parts[i+1].Mark == "":
			p.Add(m.Pos, "%s: %s and %s are not separated", m.Name, x.Param, m.Parts[i+1].Param)
		case slices.Contains([]header.ValueKind{header.KindBool}, x.Typ.Kind) && x.Mark == "":
			p.Add(m.Pos, "%s: %s is a bool without a mark", m.Name, x.Param)
		}
		seen[x.Param] = true
	}
	switch params := m.Params(); {
	case m.Kind == header.FormFrame && (len(params) > 0 || len(m.Parts) != 1):
		p.Add(m.Pos, "frame %s has parameters", m.Name)
	case m.Kind == header.FormSet && (len(m.Parts) != 1 || len(params) != 1):
		p.Add(m.Pos, "set %s is not of one parameter", m.Name)
	case m.Kind == header.FormDigits:
		if _, err := m.Digits(); err != nil {
			p.Add(m.Pos, "%v", err)
		}
	case m.Kind == header.FormList && m.Parts[len(m.Parts)-1].Literal == "":
		p.Add(m.Pos, "nothing ends an element of list %s", m.Name)
	}
}

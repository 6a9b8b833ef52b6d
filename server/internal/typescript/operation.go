package typescript

import (
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// typeName returns the name of a type for the name of an operation: ListRuns for list-runs.
func typeName(operation string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(operation, "-") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// operation writes the types of the input and the output of an operation.
func (w *writer) operation(op httpapi.Operation, described *huma.Operation) {
	name := typeName(op.Name)
	fmt.Fprintf(w, "\n/** %s: %s */\nexport interface %sInput {\n", op.Name, op.Summary, name)
	w.parameters("path", described, "")
	w.parameters("query", described, op.Query)
	w.parameters("header", described, "")
	if described.RequestBody != nil {
		mark := "?"
		if described.RequestBody.Required {
			mark = ""
		}
		fmt.Fprintf(w, "  body%s: %s;\n", mark, w.typeOf(described.RequestBody.Content["application/json"].Schema))
	}
	out := "void"
	if s := output(described); s != nil {
		out = w.typeOf(s)
	}
	fmt.Fprintf(w, "}\n\nexport type %sOutput = %s;\n", name, out)
}

// parameters writes the parameters of one location. A query of the engine may have further parameters for tags.
func (w *writer) parameters(in string, op *huma.Operation, query string) {
	var all []*huma.Param
	required := false
	for _, p := range op.Parameters {
		if p.In == in {
			all, required = append(all, p), required || p.Required
		}
	}
	if len(all) == 0 {
		return
	}
	mark := "?"
	if required {
		mark = ""
	}
	fmt.Fprintf(w, "  %s%s: {\n", in, mark)
	for _, p := range all {
		w.comment("    ", p.Description)
		mark := "?"
		if p.Required {
			mark = ""
		}
		key := p.Name
		if strings.Contains(key, "-") {
			key = fmt.Sprintf("%q", key)
		}
		fmt.Fprintf(w, "    %s%s: %s;\n", key, mark, w.typeOf(p.Schema))
	}
	if query != "" {
		w.WriteString("    /** Only with this tag. */\n    [tag: `tag.${string}`]: string;\n")
	}
	w.WriteString("  };\n")
}

// table writes the table of operations by their names.
func (w *writer) table(described []*huma.Operation) {
	w.WriteString("\n/** The operations by their names. Parts of a path that are not literals are its parameters. */\n")
	w.WriteString("export interface Operations {\n")
	for i, op := range httpapi.Operations() {
		name := typeName(op.Name)
		fmt.Fprintf(w, "  %q: {\n    method: %q; path: readonly [%s];\n", op.Name, op.Method, tuple(op.Path))
		fmt.Fprintf(w, "    right: %q; effect: %q; ", op.Right, op.Effect)
		fmt.Fprintf(w, "input: %sInput; output: %sOutput;\n", name, name)
		if op.Streams {
			_, item := w.generic(nameOf(output(described[i]).Ref))
			fmt.Fprintf(w, "    event: %s;\n", w.typeOf(item))
		}
		w.WriteString("  };\n")
	}
	w.WriteString("}\n")
}

// tuple returns the parts of a path as types.
func tuple(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "string"
		} else {
			parts[i] = fmt.Sprintf("%q", part)
		}
	}
	return strings.Join(slices.Clip(parts), ", ")
}

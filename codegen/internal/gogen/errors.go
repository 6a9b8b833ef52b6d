package gogen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/goname"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
)

// publicCodes are the error codes that the documentation of public packages names, for errors.Is: package enginecore
// has them. Package errorcode has all others.
var publicCodes = []string{
	"already_member_of_different_flow", "budget_not_found", "changed_meanwhile", "cycle_detected",
	"dependency_already_exists", "execution_already_in_flow", "execution_not_active", "execution_not_eligible",
	"execution_not_found", "execution_not_in_flow", "execution_not_terminal", "flow_already_terminal",
	"flow_not_found", "flow_not_published", "invalid_capabilities", "invalid_policy_json", "invalid_tag_key",
	"invalid_token", "lease_revoked", "max_replays_exhausted", "no_active_lease", "rotation_conflict", "run_queued",
	"self_referencing_edge", "signal_limit_exceeded", "signal_too_large", "stale_graph_revision", "stale_lease",
	"target_not_signalable", "token_expired", "waitpoint_closed", "waitpoint_not_found", "waitpoint_not_open",
	"worker_not_found",
}

const (
	publicErrorFile   = "enginecore/errors_gen.go"
	internalErrorFile = "internal/errorcode/codes_gen.go"
)

// errorName is the constant of a code, as the other packages name it.
func errorName(code string) string {
	if slices.Contains(publicCodes, code) {
		return "enginecore.Err" + goname.Exported(code)
	}
	return "errorcode." + goname.Exported(code)
}

// libraryError is an error code with the functions that return it.
type libraryError struct {
	details   []header.Field
	functions []string
}

func errorsOf(l *header.Library) map[string]*libraryError {
	byCode := map[string]*libraryError{}
	for _, f := range l.Functions {
		for _, e := range f.Errors {
			x := byCode[e.Code]
			if x == nil {
				x = &libraryError{}
				byCode[e.Code] = x
			}
			if len(e.Details) > len(x.details) {
				x.details = e.Details
			}
			x.functions = append(x.functions, f.Name)
		}
	}
	return byCode
}

// emitPublicErrors writes the public codes, and the places of the details of all codes.
func emitPublicErrors(l *header.Library) (string, error) {
	byCode := errorsOf(l)
	var g goSource
	g.line("// Error codes of the library. Compare with errors.Is.\nconst (")
	for _, c := range publicCodes {
		if x := byCode[c]; x != nil {
			emitCode(&g, "Err"+goname.Exported(c), "Code", c, x)
		}
	}
	g.line(")\n")
	g.line("// detailIndex is the place of a named detail of code, or -1.")
	g.line("func detailIndex(code Code, name string) int {\n\tswitch code {")
	for _, c := range slices.Sorted(maps.Keys(byCode)) {
		if x := byCode[c]; len(x.details) > 0 {
			g.line("\tcase %q:\n\t\tswitch name {", c)
			for i, d := range x.details {
				g.line("\t\tcase %q:\n\t\t\treturn %d", d.Name, i)
			}
			g.line("\t\t}")
		}
	}
	g.line("\t}\n\treturn -1\n}\n")
	return g.file("enginecore")
}

// emitInternalErrors writes the codes that are not public.
func emitInternalErrors(l *header.Library) (string, error) {
	byCode := errorsOf(l)
	var g goSource
	g.line("// Error codes of the library. Compare with errors.Is.\nconst (")
	for _, c := range slices.Sorted(maps.Keys(byCode)) {
		if !slices.Contains(publicCodes, c) {
			emitCode(&g, goname.Exported(c), "enginecore.Code", c, byCode[c])
		}
	}
	g.line(")")
	return g.file("errorcode")
}

func emitCode(g *goSource, name, typ, code string, x *libraryError) {
	doc := fmt.Sprintf("%s comes from %s.", name, strings.Join(x.functions, ", "))
	if len(x.details) > 0 {
		var names []string
		for _, d := range x.details {
			names = append(names, d.Name)
		}
		doc += " Details: " + strings.Join(names, ", ") + "."
	}
	g.comment("\t", doc)
	g.line("\t%s %s = %q", name, typ, code)
}

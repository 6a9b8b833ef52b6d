// Package importtest checks who imports whom inside the module.
package importtest

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/flowfabric/flowfabric-go"

// mayImport lists, for each package, the packages of this module that its code may import. Tests may import more. A
// package that is missing here fails the test: decide where it belongs, then add it. "internal/test/..." includes all
// packages below it.
var mayImport = map[string][]string{
	// Data that the API returns.
	"fabrictype": {},

	// The packages for declarations and activities. They compile without the engine.
	"flow":                  {"activity", "fabrictype", "internal/activityspec", "internal/errordetail", "internal/flowgraph", "internal/jsontype"},
	"internal/layout":       {},
	"activity":              {"fabrictype", "internal/activitycontext", "internal/activityspec", "internal/errordetail", "internal/jsontype", "internal/recordtext"},
	"internal/jsontype":     {},
	"activity/activitytest": {"fabrictype", "activity", "internal/activitycontext", "internal/activityspec"},

	// The API on top of the rooms of runtime, which make the calls of the engine: it does not import
	// internal/enginerpc.
	"runtime": {
		"activity", "enginecore", "enginecore/embedded", "fabrictype", "flow", "interceptor",
		"internal/activitycontext", "internal/activityspec", "internal/admission", "internal/answer",
		"internal/auditlink", "internal/auditlog", "internal/budgets", "internal/bulkjob", "internal/catalogue",
		"internal/describe", "internal/engine", "internal/engine/feeds", "internal/engine/observe",
		"internal/engine/transport", "internal/enginelink", "internal/engineurl", "internal/errordetail",
		"internal/explain", "internal/waitreason",
		"internal/eventkind", "internal/failurehook", "internal/fleet", "internal/flowgraph", "internal/follow",
		"internal/inspect", "internal/keeper", "internal/keyprefix", "internal/keyspace", "internal/lanes",
		"internal/limits", "internal/lualib", "internal/queryurl", "internal/recordstate", "internal/recordtext",
		"internal/runcontrol", "internal/runsearch", "internal/runview", "internal/schedule", "internal/startplan",
		"internal/submit", "internal/timetable", "internal/waitlist", "internal/worker", "internal/worker/held",
		"internal/worker/output",
	},
	"admin/archive": {
		"internal/describe",
		"internal/engine",
		"enginecore", "internal/dirlock", "internal/durabledir", "internal/enginelink", "internal/flowgraph", "runtime", "fabrictype",
	},
	"approvals": {
		"activity", "internal/activityspec", "internal/answerlog", "internal/auditlink", "internal/decision",
		"internal/recordtext", "runtime", "fabrictype",
	},
	"admin/backup": {"internal/keyprefix", "internal/lualib", "internal/enginerpc", "internal/keycopy", "internal/engineurl"},
	"admin/move":   {"internal/keyprefix", "internal/enginerpc", "internal/keycopy", "internal/engineurl"},
	"internal/engineurl": {
		"internal/keyspace", "internal/lualib",
		"enginecore", "enginecore/embedded", "internal/engine", "internal/engine/transport", "internal/enginelink", "internal/enginerpc",
	},
	"interceptor":        {"activity", "internal/activitycontext", "internal/activityspec"},
	"flowtest/runcheck":  {"internal/describe", "activity", "runtime", "fabrictype"},
	"internal/queryurl":  {},
	"internal/auditlink": {"fabrictype"},
	"admin": {
		"internal/payload",
		"internal/errorcode", "internal/keyspace", "internal/recordstate", "internal/engine", "internal/keeper",
		"enginecore", "internal/activityspec", "internal/auditlink", "internal/contractsignal", "internal/enginerpc",
		"internal/hashrecord", "internal/keeperlag",
		"internal/recordtext", "runtime", "fabrictype",
	},

	"flowtest": {
		"internal/lualib",
		"internal/eventkind",
		"internal/engine",
		"activity", "admin", "enginecore", "enginecore/embedded", "flow", "internal/activityspec", "internal/enginelink",
		"internal/enginerpc",
		"internal/flowgraph", "runtime",
		"fabrictype", "interceptor", "flowtest/runcheck",
	},

	// The packages of runtime, from the top: inspect, which reads all of them; worker, with the packages below it, and
	// keeper, which do not import each other; then the packages that both use; engine and dispatch at the bottom.
	"internal/inspect": {
		"internal/lualib",
		"internal/findingcode",
		"enginecore", "enginecore/embedded", "internal/enginerpc", "internal/keeperlag", "fabrictype",
		"internal/engine", "internal/engine/observe", "internal/fleet", "internal/lanes",
	},
	"internal/worker": {
		"internal/keyspace", "internal/errorcode", "internal/valueschema",
		"fabrictype",
		"activity", "enginecore", "internal/admission", "internal/contractnode", "internal/dispatch",
		"internal/engine", "internal/engine/observe", "internal/engine/retry", "internal/sleep", "internal/enginerpc",
		"internal/submit", "internal/worker/attempt",
		"internal/worker/budget", "internal/worker/completion", "internal/worker/held", "internal/worker/journal",
		"internal/worker/lease", "internal/worker/output", "internal/worker/permit", "internal/worker/renewal",
		"internal/worker/task",
	},
	"internal/worker/attempt": {
		"internal/keyspace",
		"activity", "internal/activityspec", "internal/dispatch", "internal/engine", "internal/engine/observe", "internal/engine/retry",
		"internal/enginerpc", "internal/worker/completion",
		"internal/worker/lease",
	},
	"internal/worker/budget": {
		"internal/keyspace", "internal/errorcode", "internal/engine",
		"fabrictype",
		"activity", "internal/activityspec", "enginecore", "flow", "internal/activitycontext", "internal/admission", "internal/engine/batching",
		"internal/engine/observe", "internal/engine/retry",
		"internal/enginerpc", "internal/flowgraph", "internal/submit", "internal/worker/attempt",
		"internal/worker/usage",
	},
	"internal/worker/usage": {
		"enginecore", "internal/engine/batching", "internal/engine/retry", "internal/enginerpc", "internal/keyspace",
		"internal/submit", "internal/worker/lease",
	},
	"internal/worker/child": {
		"internal/keyspace", "internal/errorcode",
		"activity", "enginecore", "fabrictype", "flow", "internal/activityspec", "internal/engine", "internal/engine/retry",
		"internal/sleep", "internal/enginerpc",
		"internal/errordetail", "internal/flowgraph", "internal/submit", "internal/worker/attempt",
		"internal/worker/budget", "internal/worker/completion", "internal/worker/journal", "internal/worker/lease",
	},
	"internal/worker/completion": {
		"internal/payload",
		"internal/keyspace", "internal/errorcode",
		"activity", "enginecore", "internal/activitycontext", "internal/activityspec", "internal/dispatch",
		"internal/engine", "internal/engine/batching", "internal/engine/observe", "internal/engine/retry",
		"internal/enginerpc", "internal/recordtext", "internal/submit", "internal/worker/lease",
		"internal/worker/usage",
	},
	"internal/worker/held": {
		"internal/payload",
		"activity", "enginecore", "internal/activitycontext", "internal/activityspec", "internal/admission",
		"internal/engine", "internal/engine/observe", "internal/enginerpc", "internal/submit", "internal/worker/completion",
		"internal/worker/journal", "internal/worker/lease", "internal/worker/task",
	},
	"internal/worker/journal": {
		"internal/payload",
		"activity", "enginecore", "internal/activitycontext", "internal/activityspec", "internal/engine",
		"internal/enginerpc", "internal/submit", "internal/worker/attempt", "internal/worker/completion",
		"internal/worker/lease",
	},
	"internal/worker/lease": {
		"internal/errorcode",
		"activity", "enginecore", "internal/dispatch", "internal/engine", "internal/engine/retry", "internal/sleep", "internal/enginerpc",
	},
	"internal/worker/output": {
		"internal/errorcode",
		"activity", "internal/activityspec", "internal/activitycontext", "internal/engine", "internal/engine/observe",
		"internal/engine/retry", "internal/sleep", "internal/enginerpc",
		"internal/worker/attempt", "internal/worker/lease",
	},
	"internal/worker/permit": {
		"enginecore", "internal/admission", "internal/dispatch", "internal/engine", "internal/engine/observe",
		"internal/sleep", "internal/enginerpc",
		"internal/submit", "internal/worker/lease",
	},
	"internal/worker/renewal": {
		"internal/keyspace",
		"enginecore", "internal/engine", "internal/engine/observe", "internal/engine/retry", "internal/engine/transport",
		"internal/sleep", "internal/enginerpc", "internal/worker/attempt",
		"internal/worker/completion", "internal/worker/lease",
	},
	"internal/worker/task": {
		"internal/payload",
		"enginecore", "fabrictype", "internal/fleet", "internal/valueschema",
		"activity", "flow", "internal/activitycontext", "internal/activityspec", "internal/dispatch",
		"internal/engine", "internal/engine/observe", "internal/enginerpc", "internal/flowgraph", "internal/submit",
		"internal/worker/attempt",
		"internal/worker/budget", "internal/worker/child", "internal/worker/completion", "internal/worker/journal",
		"internal/worker/output", "internal/worker/permit",
	},
	"internal/keeper": {
		"internal/keyspace", "internal/errorcode",
		"enginecore", "internal/enginerpc", "internal/hashrecord", "internal/stablehash",
		"internal/admission", "internal/bulkjob", "internal/engine", "internal/engine/batching", "internal/engine/observe",
		"internal/engine/retry", "internal/sleep", "internal/schedule",
		"internal/submit",
	},
	"internal/bulkjob": {
		"internal/keyspace", "internal/errorcode",
		"enginecore", "internal/enginerpc", "fabrictype", "internal/activityspec", "internal/answer",
		"internal/engine", "internal/engine/observe", "internal/recordtext",
		"internal/runcontrol", "internal/runsearch", "internal/submit",
	},
	"internal/runcontrol": {
		"enginecore", "internal/admission", "internal/engine", "internal/enginerpc", "internal/errorcode",
		"internal/activityspec", "internal/errordetail", "internal/submit",
	},
	"internal/runview": {
		"internal/keyspace", "internal/recordstate", "internal/eventkind", "internal/waitreason",
		"enginecore", "fabrictype", "flow", "internal/activityspec", "internal/budgets", "internal/describe",
		"internal/engine", "internal/engine/batching", "internal/enginerpc", "internal/explain", "internal/fleet",
		"internal/flowgraph", "internal/layout", "internal/recordtext", "internal/submit", "internal/waitlist",
	},
	"internal/follow": {
		"internal/keyspace", "internal/errorcode",
		"enginecore", "fabrictype", "internal/activitycontext", "internal/describe", "internal/engine",
		"internal/engine/feeds", "internal/engine/retry", "internal/engine/transport", "internal/enginerpc",
		"internal/runview", "internal/sleep", "internal/submit", "internal/worker/output",
	},
	"internal/auditlog": {"fabrictype", "internal/engine", "internal/enginerpc", "internal/runsearch"},
	"internal/fleet": {
		"enginecore", "fabrictype", "internal/engine", "internal/enginerpc", "internal/submit", "internal/valueschema",
	},
	"internal/startplan": {
		"internal/keyspace",
		"fabrictype", "internal/contractcheck", "internal/engine", "internal/enginerpc", "internal/flowgraph",
		"internal/submit",
	},
	"internal/waitlist": {
		"internal/keyspace", "internal/waitreason",
		"activity", "enginecore", "fabrictype", "internal/describe", "internal/engine", "internal/engine/batching",
		"internal/enginerpc", "internal/explain", "internal/partitionmerge", "internal/runsearch", "internal/submit", "internal/decision", "internal/activityspec",
	},
	"internal/budgets": {
		"internal/keyspace",
		"enginecore", "fabrictype", "internal/activityspec", "internal/auditlink", "internal/engine", "internal/enginerpc",
		"internal/flowgraph", "internal/submit",
	},
	"internal/failurehook": {
		"enginecore", "fabrictype", "internal/engine", "internal/engine/feeds", "internal/engine/observe",
		"internal/enginerpc", "internal/follow", "internal/recordstate", "internal/runsearch", "internal/sleep",
		"internal/submit",
	},
	"internal/catalogue": {
		"activity", "enginecore", "fabrictype", "internal/engine", "internal/engine/observe", "internal/enginerpc", "internal/flowgraph",
		"internal/sleep", "internal/submit", "internal/valueschema",
	},
	"internal/limits": {
		"internal/keyspace",
		"enginecore", "fabrictype", "internal/activityspec", "internal/auditlink", "internal/catalogue", "internal/engine",
		"internal/enginerpc",
	},
	"internal/lanes": {
		"internal/keyspace", "fabrictype", "internal/engine", "internal/engine/batching", "internal/enginerpc",
		"enginecore", "internal/fleet", "internal/keeper", "internal/keeperlag",
	},
	"internal/explain":    {"internal/waitreason", "internal/enginerpc", "internal/flowgraph", "internal/submit", "fabrictype"},
	"internal/errorwords": {},
	"internal/runsearch": {
		"internal/errorwords", "internal/keyspace", "internal/recordstate", "fabrictype",
		"enginecore", "internal/enginerpc", "internal/engine", "internal/engine/batching", "internal/partitionmerge",
	},
	"internal/partitionmerge": {"internal/keyspace"},
	"internal/decision":       {"fabrictype", "internal/activityspec"},
	"internal/answer": {
		"internal/keyspace",
		"activity", "enginecore", "fabrictype", "internal/activityspec", "internal/auditlink", "internal/engine",
		"internal/enginerpc", "internal/errorcode", "internal/recordtext", "internal/submit", "internal/valueschema", "internal/decision",
	},
	"internal/schedule": {
		"internal/keyspace", "internal/errorcode", "internal/recordstate",
		"fabrictype",
		"enginecore", "internal/enginerpc", "internal/flowgraph", "internal/recordtext", "internal/timetable",
		"internal/engine", "internal/engine/batching", "internal/engine/observe", "internal/sleep",
		"internal/submit",
	},
	// Contract mode: its backend is above the rooms that it shares with the whole library. No room imports it.
	"contract":                       {"contract/internal/backend", "internal/engine"},
	"contract/internal/contracttest": {},
	"contract/internal/modetest":     {},
	"contract/internal/backend": {
		"contract/internal/backend/execution", "contract/internal/backend/flows", "contract/internal/backend/keeper",
		"contract/internal/backend/link", "contract/internal/backend/runs", "contract/internal/backend/signals",
		"contract/internal/backend/submission", "internal/engine",
	},
	"contract/internal/backend/link": {
		"enginecore", "internal/contractcheck", "internal/contractnode", "internal/engine",
		"internal/engine/batching", "internal/engine/observe", "internal/engine/retry", "internal/enginerpc",
		"internal/hashrecord", "internal/keyspace", "internal/sleep",
	},
	"contract/internal/backend/flows": {
		"contract/internal/backend/link", "enginecore", "internal/contractnode", "internal/engine",
		"internal/engine/batching", "internal/engine/retry", "internal/enginerpc", "internal/flowgraph",
		"internal/keyspace", "internal/submit",
	},
	"contract/internal/backend/execution": {
		"activity", "contract/internal/backend/flows", "contract/internal/backend/link", "enginecore",
		"internal/activityspec", "internal/contractcheck", "internal/contractnode", "internal/engine",
		"internal/engine/batching", "internal/engine/observe", "internal/engine/retry", "internal/enginerpc",
		"internal/errorcode", "internal/hashrecord", "internal/keyspace", "internal/submit", "internal/recordtext",
	},
	"contract/internal/backend/submission": {
		"contract/internal/backend/execution", "contract/internal/backend/link", "enginecore",
		"internal/contractcheck", "internal/contractnode", "internal/engine", "internal/engine/batching",
		"internal/enginerpc", "internal/errorcode", "internal/flowgraph", "internal/hashrecord", "internal/keyspace",
		"internal/sleep",
	},
	"contract/internal/backend/signals": {
		"contract/internal/backend/execution", "contract/internal/backend/flows", "contract/internal/backend/link",
		"enginecore", "fabrictype", "internal/contractnode", "internal/engine", "internal/enginerpc",
		"internal/errorcode", "internal/hashrecord", "internal/keyspace",
	},
	"contract/internal/backend/runs": {
		"contract/internal/backend/flows", "contract/internal/backend/link", "enginecore", "fabrictype",
		"internal/contractnode", "internal/engine", "internal/engine/feeds", "internal/enginerpc",
		"internal/eventkind", "internal/hashrecord", "internal/keyspace", "internal/sleep",
	},
	"contract/internal/backend/keeper": {
		"contract/internal/backend/execution", "contract/internal/backend/flows", "contract/internal/backend/link",
		"enginecore", "internal/contractnode", "internal/engine", "internal/engine/batching",
		"internal/engine/observe", "internal/engine/retry", "internal/enginerpc", "internal/hashrecord",
		"internal/keyspace", "internal/sleep",
	},
	"internal/contractcheck": {"enginecore", "internal/activityspec", "internal/flowgraph"},
	"internal/contractnode": {
		"internal/keyspace",
		"enginecore", "internal/engine", "internal/enginerpc", "internal/hashrecord", "internal/submit",
	},
	"internal/admission": {
		"internal/keyspace",
		"enginecore", "internal/activityspec", "internal/enginerpc", "internal/hashrecord", "internal/stablehash",
		"internal/engine", "internal/engine/batching", "internal/engine/observe", "internal/submit",
	},
	"internal/submit": {
		"internal/payload",
		"internal/keyspace", "internal/errorcode",
		"fabrictype",
		"activity", "enginecore", "flow", "internal/activitycontext", "internal/activityspec", "internal/enginerpc", "internal/flowgraph",
		"internal/errordetail", "internal/recordtext", "internal/valueschema", "internal/engine", "internal/engine/batching",
		"internal/engine/observe", "internal/runrecord",
	},
	"internal/engine": {
		"internal/payload",
		"internal/keyspace", "internal/errorcode",
		"internal/eventkind",
		"activity", "enginecore", "enginecore/embedded", "internal/activityspec", "internal/auditlink",
		"internal/contractcheck",
		"internal/engine/batching", "internal/engine/feeds", "internal/engine/observe", "internal/engine/transport",
		"internal/enginerpc", "internal/errordetail", "internal/errorwords", "internal/flowgraph", "internal/hashrecord",
		"internal/recordtext", "internal/sleep", "fabrictype",
	},
	"internal/engine/transport": {"enginecore", "internal/engine/observe", "internal/enginerpc", "internal/sleep"},
	"internal/engine/observe":   {"enginecore", "internal/enginerpc"},
	"internal/engine/batching":  {"internal/enginerpc"},
	"internal/engine/retry":     {"enginecore", "internal/enginerpc", "internal/sleep"},
	"internal/engine/feeds":     {"internal/keyspace", "enginecore", "internal/engine/batching", "internal/engine/retry", "internal/engine/transport", "internal/enginerpc", "internal/sleep"},
	"internal/sleep":            {},
	"internal/dispatch":         {"internal/keyspace", "enginecore", "internal/enginerpc", "internal/stablehash"},

	// The engine: its words, its calls, its library, the server in this process.
	"enginecore":           {"internal/keyprefix"},
	"internal/keyspace":    {"enginecore"},
	"internal/keyprefix":   {},
	"internal/recordstate": {"fabrictype"},
	"internal/errorcode":   {"enginecore"},
	"internal/lualib":      {"lua"},
	"internal/enginerpc": {
		"internal/payload",
		"enginecore", "fabrictype", "internal/errorcode", "internal/keyprefix", "internal/keyspace", "internal/lualib",
		"internal/recordtext", "internal/runrecord",
	},
	"lua": {},
	"enginecore/embedded": {
		"enginecore/embedded/internal/aof", "enginecore/embedded/internal/command", "enginecore/embedded/internal/datatype",
		"enginecore/embedded/internal/dump", "enginecore/embedded/internal/glob", "enginecore/embedded/internal/keyspace",
		"enginecore/embedded/internal/numfmt", "enginecore/embedded/internal/pubsub", "enginecore/embedded/internal/record",
		"enginecore/embedded/internal/replyqueue", "enginecore/embedded/internal/resp", "enginecore/embedded/internal/script",
		"internal/luameter", "internal/netbound",
	},
	"enginecore/embedded/internal/replyqueue": {"enginecore/embedded/internal/aof", "enginecore/embedded/internal/resp"},
	"enginecore/embedded/internal/pubsub":     {"enginecore/embedded/internal/glob", "enginecore/embedded/internal/resp"},
	"enginecore/embedded/internal/script": {
		"enginecore/embedded/internal/numfmt", "enginecore/embedded/internal/resp", "internal/luameter",
	},
	"internal/luameter": {},
	"enginecore/embedded/internal/command": {
		"enginecore/embedded/internal/datatype", "enginecore/embedded/internal/dump", "enginecore/embedded/internal/glob",
		"enginecore/embedded/internal/keyspace", "enginecore/embedded/internal/numfmt", "enginecore/embedded/internal/record",
		"enginecore/embedded/internal/resp",
	},
	"enginecore/embedded/internal/aof": {"enginecore/embedded/internal/record", "internal/dirlock", "internal/durabledir"},
	"internal/dirlock":                 {},
	"internal/netbound":                {},
	"internal/durabledir":              {},
	"enginecore/embedded/internal/dump": {
		"enginecore/embedded/internal/datatype", "enginecore/embedded/internal/keyspace", "enginecore/embedded/internal/numfmt",
		"enginecore/embedded/internal/record",
	},
	"enginecore/embedded/internal/record":   {},
	"enginecore/embedded/internal/keyspace": {"enginecore/embedded/internal/datatype"},
	"enginecore/embedded/internal/datatype": {"enginecore/embedded/internal/numfmt"},
	"enginecore/embedded/internal/resp":     {"enginecore/embedded/internal/numfmt"},
	"enginecore/embedded/internal/glob":     {},
	"enginecore/embedded/internal/numfmt":   {},

	// The HTTP API: its data, its table of operations, and its client. Package server is a module of its own.
	"api":                         {"fabrictype"},
	"internal/httpapi":            {"api", "fabrictype"},
	"internal/httpcall":           {"api", "internal/activityspec", "internal/httpapi"},
	"httpclient":                  {"api", "fabrictype", "internal/httpapi", "internal/httpcall"},
	"httpclient/internal/methods": {"api", "fabrictype", "internal/httpapi"},
	"internal/serverstore":        {"internal/keyspace", "internal/errorcode", "internal/engine", "enginecore", "internal/enginerpc"},

	// Packages that several of the above share.
	"internal/activitycontext": {"fabrictype", "internal/activityspec"},
	"internal/enginelink":      {"internal/payload", "enginecore/embedded"},
	"internal/activityspec":    {"internal/errordetail", "internal/recordtext"},
	"internal/flowgraph": {
		"activity", "fabrictype", "internal/layout", "internal/activityspec", "internal/flowgraph/needs",
	},
	"internal/flowgraph/needs": {},
	"internal/hashrecord":      {"enginecore"},
	"internal/describe":        {"fabrictype", "internal/eventkind"},
	"internal/eventkind":       {"fabrictype"},
	"internal/findingcode":     {"fabrictype"},
	"internal/waitreason":      {"fabrictype"},
	"internal/keeperlag":       {"internal/keyspace", "enginecore", "internal/enginerpc"},
	"internal/keycopy":         {"internal/keyspace", "enginecore", "internal/enginerpc"},
	"internal/queueread":       {"internal/keyspace", "internal/engine", "admin", "enginecore", "internal/enginerpc", "internal/hashrecord", "runtime"},
	"internal/errordetail":     {"internal/recordtext"},
	"internal/recordtext":      {},
	"internal/runrecord":       {},
	"internal/payload":         {},
	"internal/stablehash":      {},
	"internal/timetable":       {"internal/recordtext"},
	"internal/valueschema":     {"internal/activityspec", "internal/jsontype", "fabrictype"},
	"internal/answerlog":       {"fabrictype", "internal/engine", "internal/auditlink", "runtime"},
	"internal/contractsignal": {
		"internal/keyspace", "internal/recordstate",
		"enginecore", "internal/activityspec", "internal/enginerpc", "internal/recordtext", "internal/valueschema", "fabrictype", "internal/decision",
	},

	// Commands, examples and test machinery.
	"codegen": {
		"internal/lualib", "codegen/internal/access", "codegen/internal/check", "codegen/internal/docgen", "codegen/internal/gogen",
		"codegen/internal/header", "codegen/internal/luagen", "codegen/internal/wireform",
	},
	"codegen/internal/access":     {"codegen/internal/header"},
	"codegen/internal/check":      {"internal/payload", "internal/lualib", "codegen/internal/header", "codegen/internal/luatext"},
	"codegen/internal/docgen":     {"codegen/internal/header"},
	"codegen/internal/gogen":      {"codegen/internal/goname", "codegen/internal/header"},
	"codegen/internal/goname":     {},
	"codegen/internal/header":     {"internal/lualib", "codegen/internal/goname"},
	"codegen/internal/headertest": {"codegen/internal/header"},
	"codegen/internal/luagen":     {"internal/lualib", "codegen/internal/header"},
	"codegen/internal/luatext":    {},
	"codegen/internal/wireform":   {"internal/lualib", "codegen/internal/header"},
	"bench": {
		"internal/keyspace",
		"fabrictype",
		"internal/engine", "internal/enginelink",
		"activity", "enginecore", "flow", "internal/enginerpc", "internal/flowgraph", "internal/runrecord", "internal/test/...", "runtime",
	},
	"examples/agent":            {"fabrictype", "activity", "flow", "runtime"},
	"examples/approval":         {"contract", "activity", "enginecore/embedded", "flow", "runtime", "approvals", "fabrictype"},
	"examples/dag-pipeline":     {"contract", "fabrictype", "activity", "flow", "runtime"},
	"examples/order-processing": {"activity", "flow", "runtime", "fabrictype"},
	"examples/etl":              {"activity", "fabrictype", "flow", "runtime"},
	"internal/test/...": {
		"internal/errorcode", "internal/keyspace", "internal/lualib",
		"fabrictype", "contract",
		"internal/engine", "internal/keeper", "internal/runrecord", "internal/submit",
		"activity", "admin", "enginecore", "enginecore/embedded", "flow", "internal/enginelink", "internal/enginerpc",
		"internal/payload", "internal/test/...", "runtime",
	},
	"internal/test/childtest":   {},
	"internal/test/upgradetest": {},
}

// TestImports holds the imports of all packages against the table.
func TestImports(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...")
	out, err := list.CombinedOutput()
	require.NoError(t, err, "%s", out)
	seen := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		importer := within(fields[0])
		entry := entryOf(importer)
		if entry == "" {
			t.Errorf("%s is not in the table of imports", importer)
			continue
		}
		seen[entry] = true
		for _, imported := range fields[1:] {
			imported, ours := strings.CutPrefix(imported, module+"/")
			if ours && !slices.ContainsFunc(mayImport[entry], func(pattern string) bool { return matches(pattern, imported) }) {
				t.Errorf("%s imports %s, which the table of imports does not allow", importer, imported)
			}
		}
	}
	for entry := range mayImport {
		if !seen[entry] {
			t.Errorf("package %s of the table of imports does not exist", entry)
		}
	}
}

func within(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// entryOf returns the key of the table for a package, "" when there is none.
func entryOf(importer string) string {
	if _, ok := mayImport[importer]; ok {
		return importer
	}
	for dir := importer; dir != "."; dir = path.Dir(dir) {
		if _, ok := mayImport[dir+"/..."]; ok {
			return dir + "/..."
		}
	}
	return ""
}

func matches(pattern, imported string) bool {
	if dir, below := strings.CutSuffix(pattern, "/..."); below {
		return strings.HasPrefix(imported, dir+"/")
	}
	return pattern == imported
}

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gopherlua "github.com/yuin/gopher-lua"
)

func sampleText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sample.lua"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func sampleLibrary(t *testing.T) *library {
	t.Helper()
	var p problems
	l := readHeaders([]sourceFile{{"lua/sample.lua", sampleText(t)}}, &p)
	check(l, &p)
	if err := p.err(); err != nil {
		t.Fatal(err)
	}
	return l
}

// faults gives the messages for a library text.
func faults(text string) string {
	var p problems
	l := readHeaders([]sourceFile{{"x.lua", text}}, &p)
	check(l, &p)
	if err := p.err(); err != nil {
		return err.Error()
	}
	return ""
}

func TestFaultsAreFoundWithTheirLine(t *testing.T) {
	t.Parallel()
	const header = `-- @template exec.core exec:{tag}:{execution_id}:core
-- @template workers   idx:workers

-- @function ff_x
-- @summary  Does x.
-- @key      core exec.core
-- @arg      execution_id execution_id
-- @reply    OK
-- @error    stale_lease
function F.ff_x(K, A)
  return reply.err('stale_lease', K.core, A.execution_id)
end
`
	if got := faults(header); got != "" {
		t.Fatalf("the good header: %s", got)
	}
	for _, x := range []struct{ old, new, want string }{
		{"-- @summary  Does x.\n", "", "x.lua:4: function ff_x has no @summary"},
		{"exec.core\n-- @arg", "exec.nothing\n-- @arg", "x.lua:6: unknown template exec.nothing"},
		{"-- @template workers ", "-- @template queue ffx:{tag}:lane:{lane_id}:queue:{fair_key}\n-- @template workers ",
			"x.lua:2: parameter lane_id of template queue is free text with other parts after it"},
		{"-- @template workers ", "-- @template queue ffx:{tag}:lane:{lane_id:escaped}:queue:{fair_key}\n-- @template workers ", ""},
		{"-- @template workers ", "-- @template lane ffx:{tag}:lane:{lane_id:twice}:queue\n-- @template workers ", "malformed parameter"},
		{"core exec.core", "core workers", "x.lua:6: template workers has no {tag}"},
		{"execution_id execution_id\n", "execution_id uuid\n", `x.lua:7: @arg: unknown type "uuid" of execution_id`},
		{"K.core", "K.tore", "x.lua:11: ff_x uses K.tore, which its header does not declare"},
		{"A.execution_id", "A.lane_id", "x.lua:11: ff_x uses A.lane_id, which its header does not declare"},
		{"-- @error    stale_lease\n", "", "x.lua:10: error code stale_lease is declared by no header"},
		{"err('stale_lease'", "err('stale'", "x.lua:11: error code stale is declared by no header"},
		{"err('stale_lease'", "err('stale'", "x.lua:9: error code stale_lease is declared but occurs nowhere"},
		{"function F.ff_x", "function F.ff_y", "x.lua:4: header of ff_x is not followed by"},
		{"@flags", "", ""},
		{"-- @reply    OK\n", "", "x.lua:4: function ff_x has no @reply"},
		{"-- @reply    OK\n", "-- @reply    OK a:int\n-- @reply    OK b:int\n", "x.lua:9: two replies OK with the same number of fields"},
		{"-- @reply    OK\n", "-- @reply    OK a:int\n-- @reply    DUPLICATE a:text\n", "x.lua:9: field a has another type"},
		{"-- @reply    OK\n", "-- @reply    OK a:rest(text) b:int\n", "field a takes the rest of the reply"},
		{"-- @reply    OK\n", "-- @reply    OK a:list(ghost)\n", "no @record ghost"},
		{"-- @reply    OK\n", "-- @reply    OK a:list(b:int\n", "a ( without a )"},
		{"-- @reply    OK\n", "-- @reply    fine\n", "needs a status in capitals"},
		{"-- @arg      execution_id execution_id\n", "-- @arg      execution_id execution_id\n-- @arg      execution_id text\n", "x.lua:8: argument execution_id is declared twice"},
		{"-- @key      core exec.core\n", "-- @key      core exec.core\n-- @key      core exec.core\n", "x.lua:7: key role core is declared twice"},
		{"core exec.core", "core exec.core(lane=lane_id)", "template exec.core has no parameter lane"},
		{"-- @arg ", "-- @include ghost\n-- @arg ", "no @arguments ghost"},
		{"-- @error    stale_lease\n", "-- @error    set:ghost\n", "no @errors ghost"},
		{"-- @summary", "-- @flags    eventually\n-- @summary", `unknown flag "eventually"`},
		{"-- @reply", "-- @replies  OK\n-- @reply", "@replies: unknown tag"},
		{"\nend\n", "\n", "no `end` in the first column"},
		{"-- @reply    OK\n", "-- @reply    OK\n-- @writes_on lease_expired core\n", "@writes_on lease_expired: ff_x does not declare that error"},
	} {
		if got := faults(strings.Replace(header, x.old, x.new, 1)); !strings.Contains(got, x.want) {
			t.Errorf("%q in place of %q:\n got %q\nwant %q", x.new, x.old, got, x.want)
		}
	}
	if got := faults(header + header[strings.Index(header, "-- @function"):]); !strings.Contains(got, "is declared at x.lua:4 already") {
		t.Errorf("duplicate function: %q", got)
	}
}

func TestLuaScopes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ text, want string }{
		{"local a = {}\nfunction a.f() return a.f() end\n", ""},
		{"local function f(n) return n > 0 and f(n - 1) end\n", ""},
		{"local a = {}\nfunction a.f() return b end\n", "x.lua:2: b is neither a local"},
		{"local a = {}\nfunction a.f() return a.g() end\n", "x.lua:2: a.g is defined nowhere"},
		{"local a = {}\nfunction a.f() end\nfunction a.f() end\n", "x.lua:3: a.f is defined at x.lua:2 already"},
		{"local function f() return g() end\nlocal function g() end\n", "x.lua:1: g is neither a local"},
		{"local t = tonumber('1')\n", "x.lua:1: tonumber does not exist yet while the library loads"},
		{"local function f() return tonumber('1') end\n", ""},
		{"local function f()\n  for i, v in ipairs({}) do v = i end\n  return v\nend\n", "x.lua:3: v is neither"},
		{"local function f()\n  repeat local x = 1 until x == 1\nend\n", ""},
		{"local a = {}\nlocal function f(a) return a.any end\n", "x.lua:2: the local a hides the module of that name"},
		{"local a = {}\nlocal function f() for a in next, {} do f(a) end end\n", "x.lua:2: the local a hides"},
		{"local a = {}\nlocal t = { f = a.f }\nfunction a.f() return t end\n", "x.lua:2: a.f is used while the library loads, before it is there"},
		{"local a = {}\nfunction a.f() end\nlocal t = { f = a.f }\n", ""},
		{"x = 1\n", "x.lua:1: x is neither a local"},
		{"local = 1\n", "does not parse"},
		{"local a, b = 1, 2\na, b = b, a\n", "x.lua:2: a is assigned and read again"},
		{"local a, b = {1}, 2\nb, a = a.x, a.y\n", ""},
		{"local a, b = {1}, 2\na, b = a.x, a.y + 1\n", "x.lua:2: a is assigned and read again"},
	} {
		var p problems
		checkScopes([]sourceFile{{"x.lua", x.text}}, &library{}, &p)
		got := ""
		if err := p.err(); err != nil {
			got = err.Error()
		}
		if x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("%q:\n got %q\nwant %q", x.text, got, x.want)
		}
	}
}

// TestRegistrationUnpacksArguments runs the generated registrations in a Lua interpreter.
func TestRegistrationUnpacksArguments(t *testing.T) {
	t.Parallel()
	l := sampleLibrary(t)
	state := gopherlua.NewState()
	defer state.Close()
	const harness = `
redis, registered = {}, {}
function redis.register_function(name, callback)
  if type(name) == 'table' then callback, name = name.callback, name.function_name end
  registered[name] = callback
end
`
	const tests = `
local seen
function F.ff_everything(K, A) seen = { K = K, A = A } end
registered.ff_everything({ 'core', 'old', 'ff:noop:{fp:1}', 'd1', 'd2' },
  { 'id', 'pay', '', '5', '0.5', '2', 'n1', 'n2', '10', '20', 'mid', '1', 'k', 'v', '1', 'e1', 'e2' })
local K, A = seen.K, seen.A
assert(K.core == 'core' and K.old == 'old' and K.idem == '' and #K.dep == 2 and K.dep[2] == 'd2')
assert(A.execution_id == 'id' and A.payload == 'pay' and A.ttl_ms == '' and A.ratio == '0.5')
assert(A.dims_count == '2' and #A.dims == 2 and A.dims[2].name == 'n2' and A.dims[1].limit == '10')
assert(A.between == 'mid')
assert(A.pairs_count == '1' and #A.pairs == 1 and A.pairs[1].key == 'k' and A.pairs[1].value == 'v')
assert(A.after == '1' and #A.edge_ids == 2 and A.edge_ids[1] == 'e1')
assert(registered.ff_everything({ 'core' }, { 'id', 'p', '', '5', '0.5' }) == 'refused')
local refusal, name, place = registered.ff_everything({ 'core', 'old' }, { 'id', 'p', '' })
assert(refusal == 'refused' and name == 'due_at' and place == 4)
registered.ff_everything({ 'core', 'old' }, { 'id', 'p', '', '5' })
assert(seen.A.due_at == '5' and seen.A.ratio == nil)
registered.ff_everything({ 'core', 'old' }, { 'id', 'p', '', '5', '0.5' })
assert(seen.K.idem == nil and seen.A.dims == nil and seen.A.pairs == nil and #seen.A.edge_ids == 0 and #seen.K.dep == 0)
registered.ff_everything({ 'core', 'old' }, { 'id', 'p', '', '5', '0.5', '0', 'mid', '3', 'k' })
assert(#seen.A.dims == 0 and seen.A.between == 'mid' and seen.A.pairs == nil and seen.A.pairs_count == '3')
local answer = registered.ffx_take({ 'p' }, { 'id', 'lane', '3', 'note' })
assert(answer[3] == 'p' and answer[4] == 'lane' and answer[5] == '3' and answer[6] == 'note')
local later = registered.ffx2_take({ 'p' }, { 'id', 'lane', '3', 'note' })
assert(later[3] == 'p' and later[6] == 'note')
assert(registered.ffx_version({}, {}) == '4-abc')
local c = { at = { prefix = 'ff', tag = '{fp:1}' } }
assert(key.attempt_record(c, 'id', '2') == 'ff:attempt:{fp:1}:id:2')
assert(key.workers(c) == 'ff:idx:workers')
`
	id := build{revision: 4, hash: "abc", protocol: 2, minProtocol: 1}
	text := harness + sampleText(t) + emitLuaKeys(l) + emitLuaRegister(l, false, id) + emitLuaRegister(l, true, id) + tests
	if err := state.DoString(text); err != nil {
		t.Fatal(err)
	}
}

func TestFunctionsHaveNamesByProtocol(t *testing.T) {
	t.Parallel()
	l := sampleLibrary(t)
	for _, x := range []struct {
		protocol, minProtocol int
		served, gone          []string
	}{
		{1, 1, []string{"'ff_everything'", "'ffx_take'", "'ffx_version'"}, []string{"'ffx1_", "'ffx2_"}},
		{2, 1, []string{"'ff_everything'", "'ffx_take'", "'ffx2_take'", "'ffx_version'"}, []string{"ffx2_version", "ff2_", "ffx3_"}},
		{3, 2, []string{"'ff_everything'", "'ffx2_take'", "'ffx3_take'", "'ffx_version'"}, []string{"'ffx_take'", "ffx3_version"}},
	} {
		id := build{revision: 4, hash: "abc", protocol: x.protocol, minProtocol: x.minProtocol}
		text := emitLuaRegister(l, false, id) + emitLuaRegister(l, true, id)
		for _, name := range x.served {
			if strings.Count(text, name) != 1 {
				t.Errorf("protocols %d to %d: %s is registered %d times", x.minProtocol, x.protocol, name, strings.Count(text, name))
			}
		}
		for _, name := range x.gone {
			if strings.Contains(text, name) {
				t.Errorf("protocols %d to %d: %s is registered", x.minProtocol, x.protocol, name)
			}
		}
	}
}

func TestGeneratedGoParses(t *testing.T) {
	t.Parallel()
	l := sampleLibrary(t)
	var plans []*plan
	for _, f := range l.functions {
		plans = append(plans, makePlan(l, f))
	}
	calls, err := emitCalls(plans)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"type EverythingCall struct {", "OldAttemptIndex enginecore.AttemptIndex", "IdempotencyKey string",
		"func (conn *Conn) Take(ctx context.Context, c TakeCall) (TakeReply, error)", "w.belongs(\"execution_id\", c.ExecutionID)",
		"Rest []EverythingRest", "RetryAfter time.Duration", "w.noKey()",
		"TTL time.Duration", // ttl_ms
	} {
		if !strings.Contains(strings.Join(strings.Fields(calls), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, calls)
		}
	}
	for name, emit := range map[string]func() (string, error){
		"keys":   func() (string, error) { return emitGoKeys(l) },
		"shared": func() (string, error) { return emitShared(l, plans) },
		"errors": func() (string, error) { return emitPublicErrors(l) },
		"codes":  func() (string, error) { return emitInternalErrors(l) },
		"golden": func() (string, error) { return emitGolden(plans) },
	} {
		if _, err := emit(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	docs := emitDocs(l, plans)
	for _, want := range []string{"### ff_everything", "`stale_lease` (message)", "| 3 | idem | `idem:{tag}:{namespace}:{idempotency_key}`, optional"} {
		if !strings.Contains(docs, want) {
			t.Errorf("no %q in\n%s", want, docs)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ got, want string }{
		{exported("worker_instance_id"), "WorkerInstanceID"},
		{exported("lease_ttl"), "LeaseTTL"},
		{exported("lane.eligible"), "LaneEligible"},
		{unexported("execution_id"), "executionID"},
		{unexported("type"), "typeValue"},
		{fieldName("lease_ttl_ms", "ms"), "LeaseTTL"},
		{fieldName("max_ms", "int"), "MaxMs"},
		{singular("executions"), "execution"},
		{singular("capabilities"), "capability"},
		{singular("progress"), "progress"},
		{statusConst("ALREADY_SATISFIED"), "StatusAlreadySatisfied"},
	} {
		if x.got != x.want {
			t.Errorf("got %s, want %s", x.got, x.want)
		}
	}
}

func TestCollisionsGetContractNames(t *testing.T) {
	t.Parallel()
	l := &library{functions: []*function{{name: "ff_cancel_flow"}, {name: "ffx_cancel_flow"}, {name: "ff_claim_execution"}, {name: "ff_x", goName: "Other"}}}
	assignGoNames(l)
	var got []string
	for _, f := range l.functions {
		got = append(got, f.goName)
	}
	if want := []string{"ContractCancelFlow", "CancelFlow", "ClaimExecution", "Other"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestRevisionGrowsWithChange generates from the real library, which also shows that its headers are sound.
func TestRevisionGrowsWithChange(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := readSources(filepath.Join(root, "lua"))
	if err != nil {
		t.Fatal(err)
	}
	buildOf := func(files []sourceFile, last build) build {
		t.Helper()
		outputs, err := generate(files, last)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := write(dir, outputs); err != nil {
			t.Fatal(err)
		}
		var listed bytes.Buffer
		if err := compare(dir, outputs, &listed); err != nil {
			t.Errorf("just written: %v %s", err, listed.String())
		}
		return readBuild(dir)
	}
	first := buildOf(files, build{})
	if first.revision != 1 || first.hash == "" {
		t.Errorf("first build %v", first)
	}
	if again := buildOf(files, first); again != first {
		t.Errorf("nothing changed, %v became %v", first, again)
	}
	changed := slices.Clone(files)
	changed[0].text += "-- changed\n"
	if next := buildOf(changed, first); next.revision != 2 || next.hash == first.hash {
		t.Errorf("after a change %v became %v", first, next)
	}
}

func TestCompareNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outputs := map[string]string{"a/x": "1", rpcFolder + "/calls_new_gen.go": "2"}
	if err := write(dir, map[string]string{"a/x": "1", rpcFolder + "/calls_old_gen.go": "0"}); err != nil {
		t.Fatal(err)
	}
	var listed bytes.Buffer
	err := compare(dir, outputs, &listed)
	if err == nil || listed.String() != rpcFolder+"/calls_new_gen.go\n"+rpcFolder+"/calls_old_gen.go\n" {
		t.Errorf("%v, listed %q", err, listed.String())
	}
	if err := write(dir, outputs); err != nil {
		t.Fatal(err)
	}
	if err := compare(dir, outputs, &listed); err != nil {
		t.Error(err)
	}
}

// TestFunctionNamesOnlyInGeneratedCode keeps calls from being made by name past the typed calls. The conformance
// suite replays recorded calls, so it may name them.
func TestFunctionNamesOnlyInGeneratedCode(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile("[\"`]ff(x[0-9]*)?_[a-z_]+[\"`]")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if strings.HasPrefix(name, ".") || name == "codegen" || name == "testdata" || name == "conformance" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_gen.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			// Metrics of the contract begin with ff_http_.
			if m := literal.FindString(line); m != "" && !strings.HasPrefix(m, `"ff_http_`) {
				t.Errorf("%s:%d: %s: use the typed call, or enginerpc.FunctionName", path, i+1, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

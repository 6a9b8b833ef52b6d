package luagen

import (
	"strings"
	"testing"

	gopherlua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/codegen/internal/headertest"
)

// TestRegistrationUnpacksArguments runs the generated registrations in a Lua interpreter.
func TestRegistrationUnpacksArguments(t *testing.T) {
	t.Parallel()
	sample, l := headertest.Sample(t)
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
	id := Build{Revision: 4, Hash: "abc", Protocol: 2, MinProtocol: 1}
	text := harness + sample + keys(l) + register(l, false, id) + register(l, true, id) + tests
	if err := state.DoString(text); err != nil {
		t.Fatal(err)
	}
}

func TestFunctionsHaveNamesByProtocol(t *testing.T) {
	t.Parallel()
	_, l := headertest.Sample(t)
	for _, x := range []struct {
		protocol, minProtocol int
		served, gone          []string
	}{
		{1, 1, []string{"'ff_everything'", "'ffx_take'", "'ffx_version'"}, []string{"'ffx1_", "'ffx2_"}},
		{2, 1, []string{"'ff_everything'", "'ffx_take'", "'ffx2_take'", "'ffx_version'"}, []string{"ffx2_version", "ff2_", "ffx3_"}},
		{3, 2, []string{"'ff_everything'", "'ffx2_take'", "'ffx3_take'", "'ffx_version'"}, []string{"'ffx_take'", "ffx3_version"}},
	} {
		id := Build{Revision: 4, Hash: "abc", Protocol: x.protocol, MinProtocol: x.minProtocol}
		text := register(l, false, id) + register(l, true, id)
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

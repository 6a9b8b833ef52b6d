// Package lua holds the engine: a Lua function library for Valkey and Redis, one file per concept, assembled
// into one source text.
//
// The library has two families of functions. ff_* follow the FlowFabric contract, so that other FlowFabric
// tools can share the data; ffx_* are composite calls that do in one atomic step what takes several of those.
// Each function has its own header, from which codegen writes the registration, the key builders and
// the typed calls in package enginecore.
package lua

import (
	"embed"
	"strings"
)

// Name is the name under which the library is loaded.
const Name = "flowfabric"

const (
	// Protocol is the version of the agreement between library and programs. Within one protocol, ffx_*
	// functions only gain: new functions, optional arguments, and values at the end of replies.
	Protocol = 1
	// MinProtocol is the oldest protocol of programs that this library still serves. Those of an older one find none of
	// the functions they call, besides ffx_version.
	MinProtocol = 1
)

//go:embed *.lua
var sources embed.FS

// Files lists the files of the library in the order in which they are assembled: what a file uses at load
// time stands before it.
func Files() []string {
	return []string{
		"call.lua",
		"keys.lua",
		"keys.gen.lua",
		"record.lua",
		"order.lua",
		"capability.lua",
		"wake.lua",
		"attempt.lua",
		"fence.lua",
		"lease.lua",
		"terminal.lua",
		"create.lua",
		"retry.lua",
		"park.lua",
		"claim.lua",
		"grant.lua",
		"claim_call.lua",
		"replay.lua",
		"waitpoint_token.lua",
		"condition.lua",
		"suspend.lua",
		"waitpoint.lua",
		"signal.lua",
		"journal.lua",
		"wait.lua",
		"dependency.lua",
		"group.lua",
		"join.lua",
		"sibling.lua",
		"absorb.lua",
		"event_log.lua",
		"graph.lua",
		"propagate.lua",
		"flow.lua",
		"admission.lua",
		"budget.lua",
		"quota.lua",
		"stream.lua",
		"tags.lua",
		"ffx_joins.lua",
		"ffx_lane.lua",
		"ffx_order.lua",
		"ffx_admission.lua",
		"ffx_quota.lua",
		"ffx_quota_block.lua",
		"ffx_quota_keep.lua",
		"ffx_budget.lua",
		"ffx_budget_keep.lua",
		"ffx_budget_gate.lua",
		"ffx_schedule.lua",
		"ffx_create.lua",
		"ffx_create_node.lua",
		"ffx_create_graph.lua",
		"ffx_create_flow.lua",
		"ffx_create_copy.lua",
		"ffx_submit.lua",
		"ffx_submit_many.lua",
		"ffx_request.lua",
		"ffx_handout.lua",
		"ffx_lease.lua",
		"ffx_heirs.lua",
		"ffx_visit.lua",
		"ffx_claim.lua",
		"ffx_grant.lua",
		"ffx_granted.lua",
		"ffx_complete.lua",
		"ffx_fail.lua",
		"ffx_renew.lua",
		"ffx_announce.lua",
		"ffx_wait.lua",
		"ffx_waitpoint.lua",
		"ffx_flow.lua",
		"ffx_rights.lua",
		"ffx_runs.lua",
		"ffx_child.lua",
		"ffx_purge.lua",
		"ffx_remnant.lua",
		"ffx_trim.lua",
		"ffx_walk.lua",
		"ffx_project.lua",
		"ffx_policies.lua",
		"ffx_siblings.lua",
		"ffx_members.lua",
		"ffx_rerun.lua",
		"ffx_compact.lua",
		"ffx_mend.lua",
		"ffx_mend_edges.lua",
		"ffx_mend_flow.lua",
		"ffx_mend_wait.lua",
		"ffx_start.lua",
		"ffx_due.lua",
		"ffx_tick.lua",
		"ffx_reconcile.lua",
		"register.gen.lua",
		"ffx_register.gen.lua",
	}
}

// compositePrefix begins the names of the files that hold composite calls only.
const compositePrefix = "ffx_"

// Source is the whole library, ready for FUNCTION LOAD.
func Source() string { return embedded(false) }

// ContractSource is the library without the composite calls.
func ContractSource() string { return embedded(true) }

func embedded(contract bool) string {
	// Every listed file is embedded, which a test checks; there is no other way for this to fail.
	source, _ := Assemble(contract, func(file string) (string, error) {
		text, err := sources.ReadFile(file)
		return string(text), err
	})
	return source
}

// Assemble puts the files that read gives into one source text; contract leaves the composite calls out.
func Assemble(contract bool, read func(file string) (string, error)) (string, error) {
	var b strings.Builder
	b.WriteString("#!lua name=" + Name + "\n")
	for _, file := range Files() {
		if contract && strings.HasPrefix(file, compositePrefix) {
			continue
		}
		text, err := read(file)
		if err != nil {
			return "", err
		}
		b.WriteString(Block(file, text))
	}
	return b.String(), nil
}

// Block is the text of a file as it stands in the library. The files that declare what all share stand as they
// are; any other is a block, so that its locals are its own: the interpreter allows 200 in one scope. Line
// numbers within the file stay as they are.
func Block(file, text string) string {
	switch file {
	case "call.lua", "keys.lua":
		return text
	}
	if strings.HasSuffix(file, ".gen.lua") {
		return text
	}
	return "do " + text + "end\n"
}

// Build identifies this state of the library: a revision that grows with every change, and a hash of the source.
func Build() string { return build }

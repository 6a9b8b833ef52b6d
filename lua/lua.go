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
	// functions only gain: new functions, and values at the end of replies.
	Protocol = 1
	// MinProtocol is the oldest protocol of programs that this library still serves.
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
		"capability.lua",
		"wake.lua",
		"fence.lua",
		"lease.lua",
		"terminal.lua",
		"create.lua",
		"retry.lua",
		"park.lua",
		"claim.lua",
		"dependency.lua",
		"graph.lua",
		"flow.lua",
		"admission.lua",
		"budget.lua",
		"quota.lua",
		"stream.lua",
		"tags.lua",
		"ffx_submit.lua",
		"ffx_work.lua",
		"ffx_flow.lua",
		"ffx_tick.lua",
		"register.gen.lua",
		"ffx_register.gen.lua",
	}
}

// compositePrefix begins the names of the files that hold composite calls only.
const compositePrefix = "ffx_"

// Source is the whole library, ready for FUNCTION LOAD.
func Source() string { return assemble(func(string) bool { return true }) }

// ContractSource is the library without the composite calls.
func ContractSource() string {
	return assemble(func(file string) bool { return !strings.HasPrefix(file, compositePrefix) })
}

// Build identifies this state of the library: a revision that grows with every change, and a hash of the source.
func Build() string { return build }

func assemble(take func(string) bool) string {
	var b strings.Builder
	b.WriteString("#!lua name=" + Name + "\n")
	for _, file := range Files() {
		if !take(file) {
			continue
		}
		// Every listed file is embedded, which a test checks; there is no other way for this to fail.
		text, err := sources.ReadFile(file)
		if err != nil {
			continue
		}
		b.Write(text)
	}
	return b.String()
}

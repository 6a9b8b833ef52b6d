// Package lua holds the engine: the files of a Lua function library for Valkey and Redis. Import it to read them; "go
// run ./codegen library" prints the library as a server loads it.
//
// The library has two families of functions. ff_* follow the FlowFabric contract, so that other FlowFabric tools can
// share the data; ffx_* are composite calls, each of which performs in one atomic step the work of several ff_* calls.
// Each function has its own header, from which codegen writes the registration, the key builders and the typed calls in
// package enginerpc.
package lua

import (
	"embed"
	"io/fs"
)

//go:embed frame generated execution waiting graph limits composite
var sources embed.FS

// Files has the files of the library, by their paths in the folder of this package.
func Files() fs.FS { return sources }

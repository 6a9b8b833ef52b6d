// Package lua holds the engine: a Lua function library for Valkey and Redis, assembled from files into one source text.
//
// The library has two families of functions. ff_* follow the FlowFabric contract, so that other FlowFabric tools can
// share the data; ffx_* are composite calls, each of which performs in one atomic step the work of several ff_* calls.
// Each function has its own header, from which codegen writes the registration, the key builders and the typed calls in
// package enginerpc.
package lua

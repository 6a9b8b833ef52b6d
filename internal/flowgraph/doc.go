// Package flowgraph is a flow without its Go types: its stored form, hash, validation and pictures. Package flow builds
// it; package runtime stores and runs it.
package flowgraph

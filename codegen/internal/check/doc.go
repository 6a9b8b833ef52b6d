// Package check reports contradictions in the headers of the library's functions, and faults of its Lua code: names
// that nothing declares, violations of the structure of modules, files that use each other in a circle.
package check

// Package answer sends answers to waits: signals, to a token or to a wait by its name, also together with the start of
// the run, and the results with which operators end waits. A [Checker] holds a payload against the schema of its wait
// before the engine takes it; [Audited] records the answers of named actors. Clients and bulk jobs use the package.
package answer

// Package backup writes the data of an engine to one checked file, and restores them from it into an empty engine: of
// the same kind or of another one. Runs keep their ids and states, and the tokens of open waits stay valid.
//
// Of an embedded engine in a directory, Write takes a consistent state while a program uses it. Of a server, Write
// reads a deployment that no program uses; a state at a moment of a server in use is what the server's own snapshots
// are for.
//
// A file has everything: inputs and results of runs, and the secrets that sign the tokens of waitpoints. Keep it as you
// keep the data themselves.
package backup

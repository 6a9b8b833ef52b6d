// Package backup writes the data of an engine to one checked file, and restores them from it into an empty engine: of
// the same kind or of another one. Runs keep their ids and states, and the tokens of open waits stay valid.
//
// Of an embedded engine in a directory, Write takes a consistent state while a program uses it. Of a server, Write
// reads a deployment that no program uses; for a consistent state of a server in use, use the server's own snapshots.
//
// A file has everything: inputs and results of runs, and the secrets that sign the tokens of waitpoints. Keep it as you
// keep the data themselves.
//
// Import it to write backups from a program; the command "flowfabric backup" does so from a shell.
package backup

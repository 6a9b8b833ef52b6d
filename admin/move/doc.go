// Package move moves the data of an engine to another one: from the directory of an embedded engine to a server, from
// one server to another, or from a server to a cluster, and back. Runs keep their ids, their state, their open waits
// and the tokens of these; an execution that was running is taken over in the new engine when its lease ends.
//
// Programs that use the engine have to be stopped before, and are started again with the URL of the new one. Both
// engines refuse programs while a move is under way, and the old one afterwards, with errors that state this.
//
// Import it to change the engine of a deployment from a program; the command "flowfabric move" does so from a shell.
package move

// Package move moves the data of an engine to another one: from the directory of an embedded engine to a server, from
// one server to another, or from a server to a cluster, and back. Runs keep their ids, their state, their open waits
// and the tokens of those; what was running is taken over at the new place when its lease ends.
//
// Programs that use the engine have to be stopped before, and are started again with the URL of the new one. Both
// engines refuse programs while a move is under way, and the old one afterwards, with errors that say so.
package move

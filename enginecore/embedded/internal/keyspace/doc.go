// Package keyspace holds the values of all keys, with their deadlines and the clock of the command that runs. It notes
// the changes of a command, which decide whether and how the command is logged.
package keyspace

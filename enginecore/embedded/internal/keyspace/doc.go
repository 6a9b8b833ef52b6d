// Package keyspace holds the values of all keys, with their deadlines and the clock of the command that runs. It notes
// what a command changed, which decides whether and how the command is logged.
package keyspace

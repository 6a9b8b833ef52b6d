// Package shell has the parts that all commands use: the program with its flags, the description of a command, the
// request that a command works on, the completion of arguments, and the exit codes.
package shell

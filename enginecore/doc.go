// Package enginecore is the vocabulary of the engine: identifiers and how they derive from names, partitions, states,
// error codes and their classes, and the access rules of a server's users.
//
// Refusals of the engine reach users of the other packages as *Error, and errors.Is finds their code:
//
//	if errors.Is(err, enginecore.ErrExecutionNotFound) { … }
//
// The connection and the calls of the function library are internal to this module. The command "go run ./codegen docs"
// lists its functions with their keys, arguments, replies and errors.
package enginecore

//go:generate go run ../codegen

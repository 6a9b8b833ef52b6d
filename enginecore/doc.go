// Package enginecore has the errors of the engine, the identifiers of its records, and the access rules of a server's
// users. Import it to find out by errors.Is and errors.As why a call failed.
//
// Refusals of the engine reach users of the other packages as *Error, and errors.Is finds their code:
//
//	if errors.Is(err, enginecore.ErrExecutionNotFound) { … }
//
// Error.Code can be a code without a constant here. The command "go run ./codegen docs" lists the functions of the
// library with their keys, arguments, replies and error codes.
package enginecore

//go:generate go run ../codegen

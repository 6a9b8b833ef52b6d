// Package gogen generates the Go code of the library's functions: key builders, typed calls, encoders and decoders of
// messages and texts, error codes, the tests' reader of rows, and tests with golden examples.
package gogen

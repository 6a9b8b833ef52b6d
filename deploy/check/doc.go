// Package check holds the files of deploy against the programs and types that read them. It is a module of its own, so
// that these are nobody else's dependencies.
package check

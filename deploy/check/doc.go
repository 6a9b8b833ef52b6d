// Package check compares the files of deploy with the programs and types that read them. It is a separate module, so
// that other modules do not depend on those programs.
package check

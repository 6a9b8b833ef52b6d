// Package describe says how much RunRef.Describe of package runtime tells of a run, and has the values and attempts
// that it returns. Values need no Go types: they are bytes with the name of their codec.
package describe

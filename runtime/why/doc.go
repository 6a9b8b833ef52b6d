// Package why says why a node of a run does not run: one reason for programs, one sentence for people, and what ends
// the wait. RunRef.Describe of package runtime returns it.
package why

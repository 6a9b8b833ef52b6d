// Package conformance replays recorded conversations with the reference
// function library against this repository's library.
//
// A trace is a sequence of calls with their replies, the messages that they published and their changes of the key
// space. [Replay] makes the same calls on an empty database and compares all of it, step by step. The format of the
// traces is described in testdata/conformance/TRACE-FORMAT.md.
//
// # Checking every step alone
//
// The replayer keeps a model of the recorded key space. After a difference, accepted or not, it resets the keys that
// differ to their recorded contents, and later steps that refer to the reply get the recorded one. A difference is
// therefore reported once, at the step that caused it.
//
// The same mechanism bridges functions that the library does not have (yet):
// their recorded effect is written instead of being caused by a call.
//
// # Deviations
//
// Where the library deliberately behaves better than the reference, a row in testdata/conformance/deviations.json
// describes the difference; see [Deviations]. A difference that no row describes fails, and so does a row that nothing
// matched.
package conformance

// Package header reads the contract headers above the functions in lua into a model: functions with their keys,
// arguments, replies and errors, templates of keys, records, messages and texts, rows, stores and hooks. The
// documentation of the command codegen describes the syntax.
package header

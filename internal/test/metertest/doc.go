// Package metertest counts the Lua instructions and the commands that the function library takes for runs of each kind,
// and fails when they are more than its table allows. See docs/contributing/instruction-meter.md.
package metertest

// Package output prints what commands find: as a table, with more columns, as JSON, lines of JSON or YAML, or as names
// for other commands. Text that others have written cannot act on the terminal.
package output

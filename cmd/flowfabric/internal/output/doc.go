// Package output prints the results of commands: as a table, with more columns, as JSON, lines of JSON or YAML, or as
// names for other commands. Text that others have written cannot act on the terminal.
package output

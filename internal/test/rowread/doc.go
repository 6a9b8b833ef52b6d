// Package rowread reads the records of executions that are rows of their runs, for tests that inspect stored data. The
// layout is generated from the headers in lua/composite/rows/row.lua.
package rowread

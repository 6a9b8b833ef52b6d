// Package alonetest makes a program of each public package, its first example, which imports no package of this module
// that the example does not import. It shows dependencies that a package does not import itself.
package alonetest

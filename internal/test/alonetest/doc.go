// Package alonetest uses packages of this module in a program that imports no other package of it, which shows
// dependencies that a package does not import itself.
package alonetest

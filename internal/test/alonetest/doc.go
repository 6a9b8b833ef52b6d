// Package alonetest uses packages of this module in a program that imports no other package of it, which shows what a
// package needs of others that it does not import.
package alonetest

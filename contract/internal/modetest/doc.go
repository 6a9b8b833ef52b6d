// Package modetest tests contract mode with whole runs: the functions that it offers and refuses, its costs, and how it
// repairs records that other programs left.
package modetest

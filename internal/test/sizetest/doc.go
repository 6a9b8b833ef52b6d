// Package sizetest tests how large things may be: what is beyond a bound is refused before anything is written, and
// within it memory stays flat.
package sizetest

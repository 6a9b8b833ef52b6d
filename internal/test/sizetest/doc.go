// Package sizetest tests bounds on sizes: larger data is refused before anything is written, and within the bounds
// memory does not grow.
package sizetest

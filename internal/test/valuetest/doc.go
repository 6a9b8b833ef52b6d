// Package valuetest tests large inputs and results, which do not go through functions of the library.
package valuetest

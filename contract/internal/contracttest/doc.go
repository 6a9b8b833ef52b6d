// Package contracttest holds tests of the library's functions one by one: that a refused call changes nothing, and
// that the known weaknesses of the reference do not come back.
package contracttest

// Package datatype has the collections that a key may hold: hashes, lists, sets, sorted sets and streams. They are
// plain data structures, which know nothing of keys, commands or replies. None of them may be used by several
// goroutines at a time.
package datatype

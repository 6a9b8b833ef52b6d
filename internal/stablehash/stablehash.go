// Package stablehash hashes texts to numbers that are the same in every process, so that processes which know the same
// members agree on an order of them without talking to each other.
package stablehash

import "hash/fnv"

// Of returns the 64-bit FNV-1a hash of a text.
func Of(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// Mix spreads the differences of a number over all its bits. Comparing Mix(member^seed) orders members differently for
// each seed.
func Mix(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

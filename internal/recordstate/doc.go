// Package recordstate has the texts of states in the engine's records that Go code compares or writes. The states of
// nodes are in package fabrictype.
package recordstate

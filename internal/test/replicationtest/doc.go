// Package replicationtest tests runtime.Replication: what a call has acknowledged survives the loss of a primary, and a
// call whose writes are on too few replicas says so.
package replicationtest

// Package replicationtest tests runtime.Replication: acknowledged calls survive the loss of a primary, and a call whose
// writes have reached too few replicas returns an error.
package replicationtest

// Package keyspace says where the records of a deployment are: identifiers and how they derive from names, partitions,
// and which partition holds the record of an id.
package keyspace

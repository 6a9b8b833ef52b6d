// Package lease describes an execution that the engine has leased to a worker: the reply of the claim, the shard and
// the end of the lease; the errors of calls that need a lease; and whether the engine may have leases that the worker
// does not know.
package lease

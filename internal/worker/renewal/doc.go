// Package renewal renews the leases of a worker run, and ends the contexts of attempts whose lease is lost or whose
// execution the engine has ended. After a call without a reply, it compares the leases with the engine's and releases
// those that the worker does not know. It also keeps the live key, by which keepers see that the worker exists.
package renewal

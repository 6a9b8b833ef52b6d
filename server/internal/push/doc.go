// Package push sends tasks to workers that have registered a URL. For each registration a goroutine claims tasks as
// the principal that registered, posts each with a signature, and reports the worker's answer. While a request is
// under way, the lease is renewed; a worker that answers with status 202 renews it and reports by the token of the
// task.
//
// Registrations are held by the server that was called, and end unless the worker registers again.
package push

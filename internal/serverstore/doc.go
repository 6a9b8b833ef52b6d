// Package serverstore keeps what servers of the HTTP API store in the engine: tokens, sessions of browsers, and replies
// to requests with an idempotency key. All servers of a namespace share them.
package serverstore

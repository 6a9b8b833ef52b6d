// Package serverstore keeps the records of servers of the HTTP API in the engine: tokens, sessions of browsers, and
// replies to requests with an idempotency key. All servers of a namespace share them.
package serverstore

// Package link is the connection of contract mode to an engine: it reads records, sends calls in batches, publishes
// hints, and knows the time of the server, the lanes in use and the extensions of the server's library.
package link

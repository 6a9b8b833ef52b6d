// Package netbound bounds the connections that a listener accepts, in sum and for each address, and keeps the listener
// when the machine lacks resources for another connection.
//
// At a bound, a connection that waits for its client gives way to a new one: one whose request has not arrived, or
// that has none. So idle connections do not keep clients out, regardless of their number. A connection whose request
// is being processed stays; if all are such, the new one is refused.
package netbound

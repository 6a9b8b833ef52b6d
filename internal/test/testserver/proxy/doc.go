// Package proxy is a proxy between a client and a server that injects network faults in tests: it loses replies, resets
// connections, delays data, and drops data while both sides believe to be connected.
package proxy

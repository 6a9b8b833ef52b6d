// Package connecttest tests connections to servers as they are operated: addresses that lead to another server after a
// failover, sentinels, certificates of each server, logins that change, sockets, and servers that are not ready.
package connecttest

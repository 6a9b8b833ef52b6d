// Package login finds out who calls the server, and what they may do.
package login

// Package login identifies the callers of the server and determines their rights.
package login

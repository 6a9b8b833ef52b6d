// Package command has the commands of flowfabric. All of them but those that serve call operations of the HTTP API, so
// that they do the same on an engine and on a server.
package command

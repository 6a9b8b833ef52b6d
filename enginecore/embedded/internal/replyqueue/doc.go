// Package replyqueue holds the replies of a connection until the client takes them, and those that depend on the log
// until it is on disk.
package replyqueue

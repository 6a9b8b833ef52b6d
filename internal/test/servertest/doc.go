// Package servertest tests how clients, workers and keepers behave when servers and connections stop, come back, run full or do not answer.
package servertest

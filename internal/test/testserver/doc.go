// Package testserver starts real Redis and Valkey servers for tests.
//
// A test gets a server of its own from [Start], which it may kill and restart, or the server shared by its process from
// [Shared], on which it uses its own key prefix. No server outlives the test process, not even one that is killed.
//
// A missing server program fails the test. Only a kind excluded by FLOWFABRIC_TEST_ENGINES is skipped.
package testserver

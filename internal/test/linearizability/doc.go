// Package linearizability checks recorded histories of concurrent clients against a model of a run.
//
// Clients start runs under the same ids with the same and with other inputs, signal them, cancel them, describe them and
// read their results, while connections are cut and servers are killed. A history has the beginning, the end and the
// outcome of each call. It is linearizable if all calls can be put in one order that agrees with real time and with the
// model: each call takes effect at one moment between its beginning and its end. A call whose outcome is unknown, because
// its connection broke, for example, may take effect at any moment after its beginning, or never.
//
// It is a module of its own, so that the checker (github.com/anishathalye/porcupine) is not a requirement of the
// library. FLOWFABRIC_SOAK repeats the tests with new seeds for a duration; FLOWFABRIC_SEED repeats the choices of one
// history.
package linearizability

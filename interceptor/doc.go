// Package interceptor declares functions around the operations of a client (runtime.Client.Use) and around the
// functions that a worker runs (runtime.WorkerConfig.Interceptors), and propagators, which carry values of a context
// from the start of a run to its functions (runtime.OpenConfig.Propagators).
//
// Import it to add logging, checks or values of contexts to all calls.
package interceptor

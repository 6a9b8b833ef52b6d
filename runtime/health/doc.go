// Package health answers the readiness probes of an orchestrator over HTTP.
//
//	http.Handle("/readyz", health.Handler(map[string]health.Checker{"engine": engine, "worker": worker}))
//
// A process that answers HTTP is alive. It is ready if it can do its work: the engine answers, and its workers and
// keepers run and have reached the engine recently. Do not restart a process for not being ready: workers wait for an
// unavailable engine, and running functions continue.
package health

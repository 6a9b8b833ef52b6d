// Package health answers the readiness probes of an orchestrator over HTTP.
//
//	http.Handle("/readyz", health.Handler(map[string]health.Checker{"engine": engine, "worker": worker}))
//
// A process that answers HTTP at all is alive; being ready says that it can do its work: the engine answers, and its
// workers and keepers run and have been in touch with it lately. Do not restart a process for not being ready: workers
// wait for an engine that is away, and go on with what they run.
package health

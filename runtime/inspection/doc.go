// Package inspection is what runtime.Engine.Inspect reports: findings about the servers, the user's rights, the
// function library, keepers and workers of an engine, each with a stable [Code], a [Severity] and what to do about it.
//
//	report, err := engine.Inspect(ctx)
//	for _, finding := range report.AtLeast(inspection.Warning) {
//		log.Print(finding) // "eviction.on: 10.0.0.7:6379: maxmemory-policy allkeys-lru … (CONFIG SET …)"
//	}
//
// A program that reacts to single findings compares their codes. New codes may come.
package inspection

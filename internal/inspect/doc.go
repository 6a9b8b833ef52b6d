// Package inspect looks at what surrounds an engine: the settings, memory and disk of its servers, the rights of its
// user, the function library, keepers and workers. [Engine] reports all of it as an fabrictype.Inspection, [Warn] logs
// bad settings of servers when an engine is opened, and [Ready] and [Embedded] answer readiness checks. Nothing is
// changed.
package inspect

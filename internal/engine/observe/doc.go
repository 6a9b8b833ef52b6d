// Package observe names all metrics, spans and log records of clients, workers and keepers: [Telemetry] and [LogEvent].
// [RepeatLimiter] counts log records that repeat each other, and [Liveness] records when the engine has answered.
package observe

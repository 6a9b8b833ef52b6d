// Command flowfabric shows what an engine does, and lets an operator step in.
//
//	flowfabric [-url URL] [-prefix P] [-namespace N] COMMAND [flags] [arguments]
//
// The URL is that of runtime.Open, by default the environment's FLOWFABRIC_URL. Output is a table for people, or with
// -json one JSON object a line. The exit code is 0, 1 after a failure, 2 for a call that makes no sense.
//
//	flowfabric runs -flow import -state failed -since 24h
//	flowfabric describe import 2026-11-20
//	flowfabric rerun import 2026-11-20
package main

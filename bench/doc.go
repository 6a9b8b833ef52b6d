// Command bench measures the engine and the SDK together: client, worker and keeper in this process, the engine at the
// URL.
//
//	go run ./bench -engine valkey://localhost:6379 -work chain
//
// Every figure is reported with a ceiling of the same server without the engine, measured in the same run, so it is
// also a ratio.
package main

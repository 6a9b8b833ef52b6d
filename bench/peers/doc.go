// Command peers compares FlowFabric with other systems that run work in the background: asynq, go-workflows, River on
// PostgreSQL, and Temporal's development server. All do the same work on this machine.
//
//	go run . -rounds 3
//	go run . -only asynq,river -time 5s
//
// The command starts every server itself. Each measurement is a separate process with a separate server, and is printed
// next to one of FlowFabric, which is measured right before it. The output is the Markdown in docs/reference/peers.md.
package main

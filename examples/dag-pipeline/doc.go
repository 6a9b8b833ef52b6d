// Command dag-pipeline computes statistics of Go source code: it finds the packages of a tree, distributes them to
// parallel nodes that parse and measure them, joins and ranks the results, and writes a report in Markdown with a
// chart.
//
// flow.go declares the work as a graph; the other files hold the ordinary functions that its nodes run. An interrupted
// census, even by kill -9, continues when the command is repeated, as long as the engine outlives the process: -engine
// embedded:DIR or a server.
package main

// Package catalogue keeps the flows that programs publish in a namespace: it publishes and withdraws them, and reads
// them with their graphs and schemas. Clients use it, and workers that publish flows when they begin.
package catalogue

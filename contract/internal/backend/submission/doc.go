// Package submission creates flows call by call: nodes, joins and edges, and last the release of the nodes.
package submission

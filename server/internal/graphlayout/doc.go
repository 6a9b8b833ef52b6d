// Package graphlayout places the nodes of a graph in layers from left to right and routes the edges between them.
package graphlayout

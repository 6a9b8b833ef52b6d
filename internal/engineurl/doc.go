// Package engineurl reads the URLs of engines, and connects to the data of an engine without its library.
package engineurl
